package containers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/cluster/owner"
)

// RemoveAll removes every cluster of containers on this engine and returns their names.
func RemoveAll(ctx context.Context) ([]string, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	found, err := find(ctx, docker, LabelCluster)
	if err != nil {
		return nil, err
	}
	return found.clusters(), found.remove(ctx, docker)
}

// reap removes the objects of processes that ended without removing them, and returns the names of the clusters. All
// objects of an aborted start are removed, whatever their owner. Objects are removed by ID: others of the same
// cluster name may be created meanwhile.
func reap(ctx context.Context, docker *testcontainers.DockerClient) ([]string, error) {
	found, err := find(ctx, docker, LabelCluster)
	if err != nil {
		return nil, err
	}
	abandoned := map[string]bool{}
	for _, c := range found.claims {
		if owner.Dead(c.Labels[LabelOwner]) {
			abandoned[c.Labels[LabelRun]] = true
		}
	}
	dead := found.where(func(labels map[string]string) bool {
		return abandoned[labels[LabelRun]] || owner.Dead(labels[LabelOwner])
	})
	return dead.clusters(), dead.remove(ctx, docker)
}

// removeRun removes what one start made, and its claim.
func removeRun(ctx context.Context, docker *testcontainers.DockerClient, run string) error {
	return remove(ctx, docker, LabelRun+"="+run)
}

func remove(ctx context.Context, docker *testcontainers.DockerClient, label string) error {
	found, err := find(ctx, docker, label)
	if err != nil {
		return err
	}
	return found.remove(ctx, docker)
}

// lateWait is how long the engine gets to carry out what a dead process asked for, which it does not give up.
const lateWait = 300 * time.Millisecond

// remove removes members with their volumes first, then networks, and claims last: until then no other start of the
// cluster begins. What a start asked for before it died may come only now.
func (o objects) remove(ctx context.Context, docker *testcontainers.DockerClient) error {
	if err := o.removeMade(ctx, docker); err != nil || len(o.claims) == 0 {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lateWait):
	}
	for _, claim := range o.claims {
		late, err := find(ctx, docker, LabelRun+"="+claim.Labels[LabelRun])
		if err != nil {
			return err
		}
		if err := late.removeMade(ctx, docker); err != nil {
			return err
		}
	}
	return removeContainers(ctx, docker, o.claims)
}

func (o objects) removeMade(ctx context.Context, docker *testcontainers.DockerClient) error {
	if err := removeContainers(ctx, docker, o.members); err != nil {
		return err
	}
	return removeNetworks(ctx, docker, o.networks)
}

func removeContainers(ctx context.Context, docker *testcontainers.DockerClient, containers []container.Summary) error {
	var group errgroup.Group
	owners := make([]bool, len(containers))
	for i, c := range containers {
		group.Go(func() error {
			err := removeContainer(ctx, docker, c.ID)
			if owners[i] = hasDependents(err); owners[i] {
				return nil
			}
			return err
		})
	}
	err := group.Wait()
	for i, c := range containers {
		if owners[i] { // the others are gone
			err = errors.Join(err, removeContainer(ctx, docker, c.ID))
		}
	}
	return err
}

// hasDependents tells whether a removal was refused as other containers share the container's network; Podman refuses
// it.
func hasDependents(err error) bool {
	return err != nil && strings.Contains(err.Error(), "has dependent containers")
}

func removeContainer(ctx context.Context, docker *testcontainers.DockerClient, id string) error {
	_, err := docker.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if ignoreGone(err) != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}

func removeNetworks(ctx context.Context, docker *testcontainers.DockerClient, networks []network.Summary) error {
	for _, n := range networks {
		if err := removeNetwork(ctx, docker, n.ID); err != nil {
			return fmt.Errorf("remove network %s: %w", n.Name, err)
		}
	}
	return nil
}

// How often, and how long apart, the removal of a network is tried again.
const (
	networkTries = 20
	networkWait  = 250 * time.Millisecond
)

// removeNetwork tries again while the engine has yet to take the network's last containers, which are gone, out of it.
func removeNetwork(ctx context.Context, docker *testcontainers.DockerClient, id string) error {
	for try := 1; ; try++ {
		_, err := docker.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
		err = ignoreGone(err)
		if err == nil || !strings.Contains(err.Error(), "active endpoints") {
			return err
		}
		if try == networkTries {
			return fmt.Errorf("%w; if docker network inspect shows no container in it, the engine has lost count of "+
				"those that are gone: restart the engine, then remove the cluster again", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(networkWait):
		}
	}
}

// ignoreGone forgives what another remover was faster at.
func ignoreGone(err error) error {
	if errdefs.IsNotFound(err) || (errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress")) {
		return nil
	}
	return err
}
