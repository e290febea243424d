package containers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	left := o.removeMade(ctx, docker)
	if left != nil && !errors.Is(left, ErrMiscounted) || len(o.claims) == 0 {
		return left
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
		if err := late.removeMade(ctx, docker); err != nil && !errors.Is(err, ErrMiscounted) {
			return err
		}
	}
	return errors.Join(removeContainers(ctx, docker, o.claims), left)
}

// removeMade returns an ErrMiscounted only when all else is gone.
func (o objects) removeMade(ctx context.Context, docker *testcontainers.DockerClient) error {
	disconnect(ctx, docker, o.members)
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

// disconnect takes containers out of their networks, one after the other, as far as that goes: their removal follows.
//
// Engines before 28.1 keep a count of a network's endpoints, which two containers that come or go at the same time may
// leave too high (https://github.com/moby/moby/issues/42119); the network then can't be removed before the engine
// restarts. The engine inspects a container only when its start is over, also a start that a dead process asked for.
// Hence all are inspected before the first one goes. Starts do run at the same time, as a cluster would be up much
// later otherwise: that a network is left is rare, and not impossible.
func disconnect(ctx context.Context, docker *testcontainers.DockerClient, containers []container.Summary) {
	var connected []container.InspectResponse
	for _, c := range containers {
		inspected, err := docker.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if err != nil || inspected.Container.State == nil || !inspected.Container.State.Running ||
			inspected.Container.NetworkSettings == nil {
			continue
		}
		connected = append(connected, inspected.Container)
	}
	for _, c := range connected {
		for _, endpoint := range c.NetworkSettings.Networks {
			_, _ = docker.NetworkDisconnect(ctx, endpoint.NetworkID,
				client.NetworkDisconnectOptions{Container: c.ID, Force: true})
		}
	}
}

// removeNetworks returns an ErrMiscounted only when all other networks are gone.
func removeNetworks(ctx context.Context, docker *testcontainers.DockerClient, networks []network.Summary) error {
	errs := make([]error, len(networks))
	var all sync.WaitGroup
	for i, n := range networks {
		all.Go(func() {
			if err := removeNetwork(ctx, docker, n.ID); err != nil {
				errs[i] = fmt.Errorf("remove network %s: %w", n.Name, err)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, ErrMiscounted) {
			return err
		}
	}
	return errors.Join(errs...)
}

// ErrMiscounted is returned for a network that has no container and that the engine does not remove all the same; see
// disconnect.
var ErrMiscounted = errors.New("the engine has lost count of its containers, which are gone; the network is in no " +
	"cluster's way, and the next removal after a restart of the engine takes it")

// How often, and how long apart, the removal of a network is tried again; and after how many tries one that has no
// container is taken for miscounted.
const (
	networkTries = 20
	emptyTries   = 4
	networkWait  = 250 * time.Millisecond
)

// removeNetwork tries again while the engine has yet to take the network's last containers, which are gone, out of it.
func removeNetwork(ctx context.Context, docker *testcontainers.DockerClient, id string) error {
	for try := 1; ; try++ {
		_, err := docker.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
		err = ignoreGone(err)
		if err == nil || !strings.Contains(err.Error(), "active endpoints") || try == networkTries {
			return err
		}
		if try >= emptyTries {
			inspected, inspectErr := docker.NetworkInspect(ctx, id, client.NetworkInspectOptions{})
			if inspectErr == nil && len(inspected.Network.Containers) == 0 {
				return fmt.Errorf("%w: %w", err, ErrMiscounted)
			}
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
