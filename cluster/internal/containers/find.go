package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/cluster/owner"
)

// Found is a member of a cluster as Docker knows it.
type Found struct {
	Cluster, Member, Component, Image string
	State                             string // Docker's word, e.g. "running"
	Status                            string // e.g. "Up 3 minutes"
	Created                           time.Time
	ID                                string
}

// List finds the members of one cluster, or of all if cluster is empty, sorted by cluster and member.
func List(ctx context.Context, cluster string) ([]Found, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	filter := LabelCluster
	if cluster != "" {
		filter += "=" + cluster
	}
	listed, err := list(ctx, docker, filter)
	if err != nil {
		return nil, err
	}
	var found []Found
	for _, c := range listed {
		found = append(found, Found{
			Cluster: c.Labels[LabelCluster], Member: c.Labels[LabelMember], Component: c.Labels[LabelComponent],
			Image: c.Image, State: string(c.State), Status: c.Status, Created: time.Unix(c.Created, 0), ID: c.ID,
		})
	}
	slices.SortFunc(found, func(a, b Found) int {
		return strings.Compare(a.Cluster+"/"+a.Member, b.Cluster+"/"+b.Member)
	})
	return found, nil
}

// Attach makes a back end of a cluster that another process started, with its instances by name.
func Attach(ctx context.Context, cluster string) (*Containers, map[string]backend.Instance, error) {
	found, err := List(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	c, err := New(ctx, Config{Cluster: cluster, Owner: OwnerUser, Notice: func(string) {}})
	if err != nil {
		return nil, nil, err
	}
	c.start = "" // all of the cluster is meant
	instances := map[string]backend.Instance{}
	for _, f := range found {
		instances[f.Member] = &instance{docker: c.docker, name: f.Member, id: f.ID}
	}
	return c, instances, nil
}

// RemoveAll removes every cluster of containers on this engine and returns their names.
func RemoveAll(ctx context.Context) ([]string, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	names, err := clusters(ctx, docker, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	return names, remove(ctx, docker, LabelCluster)
}

// Reap removes the clusters whose owner was a process that ended without removing them, and returns their names.
func Reap(ctx context.Context) ([]string, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	names, err := clusters(ctx, docker, owner.Dead)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, remove(ctx, docker, LabelCluster+"="+name))
	}
	return names, errors.Join(errs...)
}

// clusters names the clusters whose owner passes, by their containers and networks.
func clusters(ctx context.Context, docker *testcontainers.DockerClient, passes func(string) bool) ([]string, error) {
	names := map[string]bool{}
	listed, err := list(ctx, docker, LabelCluster)
	if err != nil {
		return nil, err
	}
	for _, c := range listed {
		if passes(c.Labels[LabelOwner]) {
			names[c.Labels[LabelCluster]] = true
		}
	}
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: byLabel(LabelCluster)})
	if err != nil {
		return nil, err
	}
	for _, n := range networks.Items {
		if passes(n.Labels[LabelOwner]) {
			names[n.Labels[LabelCluster]] = true
		}
	}
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted, nil
}

func list(ctx context.Context, docker *testcontainers.DockerClient, label string) ([]container.Summary, error) {
	listed, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: byLabel(label)})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	return listed.Items, nil
}

// remove takes away everything with a label: containers with their volumes first, then networks.
func remove(ctx context.Context, docker *testcontainers.DockerClient, label string) error {
	listed, err := list(ctx, docker, label)
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, c := range listed {
		group.Go(func() error {
			_, err := docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			return ignoreGone(err)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("remove containers: %w", err)
	}
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: byLabel(label)})
	if err != nil {
		return err
	}
	for _, n := range networks.Items {
		if _, err := docker.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); ignoreGone(err) != nil {
			return fmt.Errorf("remove network %s: %w", n.Name, err)
		}
	}
	return nil
}

// ignoreGone forgives what another remover was faster at.
func ignoreGone(err error) error {
	if errdefs.IsNotFound(err) || (errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress")) {
		return nil
	}
	return err
}

func byLabel(label string) client.Filters {
	return make(client.Filters).Add("label", label)
}
