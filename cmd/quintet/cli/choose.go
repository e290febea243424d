package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"quintet.dev/quintet/cluster"
)

// defaultName is the cluster that `quintet up` starts.
const defaultName = "quintet"

// chosen is the cluster that a command is about.
type chosen struct {
	name      string
	inProcess *entry // nil for a cluster of containers
}

// choose finds the cluster of --name, or the only one there is.
func (a *app) choose(ctx context.Context) (chosen, error) {
	all, err := a.clusters(ctx)
	if err != nil {
		return chosen{}, err
	}
	switch named := slices.IndexFunc(all, func(c chosen) bool { return c.name == a.name }); {
	case named >= 0:
		return all[named], nil
	case a.name != "":
		return chosen{}, a.absent(all)
	case len(all) == 0:
		return chosen{}, errors.New("no cluster runs; start one: quintet up")
	case len(all) > 1:
		return chosen{}, fmt.Errorf("several clusters run; choose one with --name: %s", names(all))
	}
	return all[0], nil
}

// absent returns the error that the cluster of --name is not among all.
func (a *app) absent(all []chosen) error {
	if len(all) == 0 {
		return fmt.Errorf("no cluster %q runs, nor any other; this starts it: quintet up --name %s", a.name, a.name)
	}
	return fmt.Errorf("no cluster %q runs; those that do: %s", a.name, names(all))
}

func names(all []chosen) string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.name
	}
	return strings.Join(out, ", ")
}

// clusters lists all clusters, by name. Without Docker there are only those in processes.
func (a *app) clusters(ctx context.Context) ([]chosen, error) {
	entries, err := a.state.inProcess()
	if err != nil {
		return nil, err
	}
	var all []chosen
	for i := range entries {
		all = append(all, chosen{name: entries[i].Name, inProcess: &entries[i]})
	}
	inDocker, err := cluster.Names(ctx)
	if err != nil && len(all) == 0 {
		return nil, err
	}
	for _, name := range inDocker {
		if !slices.ContainsFunc(all, func(c chosen) bool { return c.name == name }) {
			all = append(all, chosen{name: name})
		}
	}
	slices.SortFunc(all, func(x, y chosen) int { return strings.Compare(x.name, y.name) })
	return all, nil
}

// kubeconfigOf returns the path of the chosen cluster's kubeconfig and writes the file where it is missing or old.
func (a *app) kubeconfigOf(ctx context.Context, c chosen) (string, error) {
	path := a.state.kubeconfig(c.name)
	if c.inProcess != nil {
		return path, nil
	}
	opened, err := cluster.Open(ctx, c.name)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	if kept, err := os.ReadFile(path); err == nil && string(kept) == string(opened.Kubeconfig()) {
		return path, nil
	}
	e := a.state.entry(c.name)
	e.Name = c.name
	return path, a.state.save(e, opened.Kubeconfig())
}
