package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"quintet.dev/quintet/cluster/owner"
)

// state is the directory with one folder per cluster that this user started. Docker is the record of what runs in
// containers; the folder adds the kubeconfig as a file, and is the record of clusters without Docker.
type state struct{ dir string }

// entry is the content of a cluster's folder besides its kubeconfig.
type entry struct {
	Name      string `json:"name"`
	InProcess bool   `json:"inProcess"`
	// Owner names the process of an in-process cluster.
	Owner string `json:"owner,omitempty"`
}

const (
	kubeconfigFile = "kubeconfig"
	entryFile      = "cluster.json"
)

// defaultStateDir follows the XDG base directory specification.
func defaultStateDir() (string, error) {
	if base := os.Getenv("XDG_STATE_HOME"); base != "" {
		return filepath.Join(base, "quintet"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "quintet"), nil
}

func (s state) kubeconfig(name string) string { return filepath.Join(s.dir, name, kubeconfigFile) }

func (s state) save(e entry, kubeconfig []byte) error {
	dir := filepath.Join(s.dir, e.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	content, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, kubeconfigFile), kubeconfig, 0o600),
		os.WriteFile(filepath.Join(dir, entryFile), content, 0o600),
	)
}

func (s state) remove(name string) error { return os.RemoveAll(filepath.Join(s.dir, name)) }

// inProcess lists the clusters that live in a process of this machine, and forgets those whose process ended.
func (s state) inProcess() ([]entry, error) {
	dirs, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, dir := range dirs {
		content, err := os.ReadFile(filepath.Join(s.dir, dir.Name(), entryFile))
		if err != nil {
			continue // half-made
		}
		var e entry
		if err := json.Unmarshal(content, &e); err != nil || !e.InProcess {
			continue
		}
		if owner.Dead(e.Owner) {
			if err := s.remove(e.Name); err != nil {
				return nil, err
			}
			continue
		}
		entries = append(entries, e)
	}
	return slices.Clip(entries), nil
}
