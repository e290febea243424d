package containers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"quintet.dev/quintet/cluster/owner"
)

// releaseTimeout bounds the removal of a claim.
const releaseTimeout = 30 * time.Second

// ErrTaken is returned for a start of a cluster whose name is in use.
var ErrTaken = errors.New("the name is taken")

// Claim is a wish to start a cluster.
type Claim struct {
	Cluster string
	// Image is any that members run from. The container that holds the claim is made of it, and never started.
	Image string
	// Notice is called with notices for the user. Not nil.
	Notice func(string)
}

// Exclusively runs start while no other start of a cluster of that name runs on this engine, by this process or any
// other, and no such cluster exists. Everything that start makes must be labelled with run. A start whose process died
// holds nothing: what it made is removed first.
//
// Docker tells which of several is first: the claim is a container, as containers are the only objects whose names are
// unique and that can be removed by an identity which is no later one's.
func Exclusively(ctx context.Context, c Claim, start func(ctx context.Context, run string) error) (err error) {
	docker, err := connect(ctx)
	if err != nil {
		return err
	}
	defer docker.Close()
	if reaped, err := reap(ctx, docker); err != nil {
		c.Notice(fmt.Sprintf("could not remove what dead processes left behind: %v", err))
	} else if len(reaped) > 0 {
		c.Notice(fmt.Sprintf("removed clusters of dead processes: %v", reaped))
	}
	provider, err := newProvider()
	if err != nil {
		return err
	}
	defer provider.Close()
	if err := ensureImage(ctx, docker, provider, c.Image); err != nil {
		return err
	}
	run := rand.Text()
	id, err := take(ctx, docker, c, run)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		err = errors.Join(err, removeContainer(ctx, docker, id))
	}()
	if err := unused(ctx, docker, c.Cluster); err != nil {
		return err
	}
	return start(ctx, run)
}

// take creates the container of a claim and returns its identity.
func take(ctx context.Context, docker *testcontainers.DockerClient, c Claim, run string) (string, error) {
	self, err := owner.Self()
	if err != nil {
		return "", err
	}
	name := claimName(c.Cluster)
	for {
		created, err := docker.ContainerCreate(ctx, client.ContainerCreateOptions{
			Name: name,
			Config: &container.Config{
				Image: c.Image, Entrypoint: []string{"claim"}, // an image need not have a command of its own
				Labels: map[string]string{LabelCluster: c.Cluster, LabelOwner: self, LabelRun: run,
					LabelClaim: c.Cluster},
			},
			HostConfig: &container.HostConfig{NetworkMode: "none"},
		})
		if err == nil {
			return created.ID, nil
		}
		if !errdefs.IsConflict(err) {
			return "", fmt.Errorf("claim the name %s: %w", c.Cluster, err)
		}
		holder, err := docker.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			continue // it was released meanwhile
		}
		if err != nil {
			return "", fmt.Errorf("claim the name %s: %w", c.Cluster, err)
		}
		labels := holder.Container.Config.Labels
		if !owner.Dead(labels[LabelOwner]) {
			return "",
				fmt.Errorf("%w: a cluster %s is being started already; choose another name, or wait and use that one; if "+
					"that start was given up on another machine, remove it: quintet down --name %s", ErrTaken,
					c.Cluster, c.Cluster)
		}
		if err := removeRun(ctx, docker, labels[LabelRun]); err != nil {
			return "", err
		}
	}
}

// unused fails if the cluster has members. Networks without are left of one that is being removed, or was in part; they
// don't have the name that the start's own gets. Only the holder of the claim may call it.
func unused(ctx context.Context, docker *testcontainers.DockerClient, cluster string) error {
	found, err := find(ctx, docker, LabelCluster+"="+cluster)
	if err != nil {
		return err
	}
	if len(found.members) > 0 {
		return fmt.Errorf("%w: there is a cluster %s; choose another name, or remove it: quintet down --name %s",
			ErrTaken, cluster, cluster)
	}
	if err := removeNetworks(ctx, docker, found.networks); !errors.Is(err, ErrMiscounted) {
		return err
	}
	return nil
}

func claimName(cluster string) string { return "quintet-" + cluster + "-start" }
