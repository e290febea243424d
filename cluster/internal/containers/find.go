package containers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"quintet.dev/quintet/cluster/internal/backend"
)

// Found is a member of a cluster as Docker knows it.
type Found struct {
	Cluster, Member, Component, Image string
	State                             string // Docker's word, e.g. "running"
	Status                            string // e.g. "Up 3 minutes"
	Created                           time.Time
	ID                                string
	Joined                            bool // by a token
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
		if _, claims := c.Labels[LabelClaim]; claims {
			continue
		}
		member := c.Labels[LabelMember]
		_, joined := c.Labels[LabelJoined]
		if joined {
			if member, err = joinedName(ctx, docker, c.ID); err != nil {
				return nil, err
			}
		}
		if member == "" {
			continue // removed meanwhile
		}
		found = append(found, Found{
			Cluster: c.Labels[LabelCluster], Member: member, Component: c.Labels[LabelComponent], Joined: joined,
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
	instances := map[string]backend.Instance{}
	for _, f := range found {
		instances[f.Member] = &instance{docker: c.docker, name: f.Member, id: f.ID}
	}
	return c, instances, nil
}

// Names lists the clusters on this engine, also those that are being started, or of which a crash left a part.
func Names(ctx context.Context) ([]string, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	found, err := find(ctx, docker, LabelCluster)
	return found.clusters(), err
}

// objects are what Docker has of clusters.
type objects struct {
	members, claims []container.Summary
	networks        []network.Summary
}

// find lists everything with a label.
func find(ctx context.Context, docker *testcontainers.DockerClient, label string) (objects, error) {
	var found objects
	listed, err := list(ctx, docker, label)
	if err != nil {
		return found, err
	}
	for _, c := range listed {
		if _, claims := c.Labels[LabelClaim]; claims {
			found.claims = append(found.claims, c)
		} else {
			found.members = append(found.members, c)
		}
	}
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: byLabel(label)})
	if err != nil {
		return found, fmt.Errorf("list networks: %w", err)
	}
	found.networks = networks.Items
	return found, nil
}

// clusters are the names of those that the objects belong to, in order.
func (o objects) clusters() []string {
	var names []string
	for _, c := range slices.Concat(o.members, o.claims) {
		names = append(names, c.Labels[LabelCluster])
	}
	for _, n := range o.networks {
		names = append(names, n.Labels[LabelCluster])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// where keeps the objects whose labels pass.
func (o objects) where(passes func(labels map[string]string) bool) objects {
	var kept objects
	for _, c := range o.members {
		if passes(c.Labels) {
			kept.members = append(kept.members, c)
		}
	}
	for _, c := range o.claims {
		if passes(c.Labels) {
			kept.claims = append(kept.claims, c)
		}
	}
	for _, n := range o.networks {
		if passes(n.Labels) {
			kept.networks = append(kept.networks, n)
		}
	}
	return kept
}

func list(ctx context.Context, docker *testcontainers.DockerClient, label string) ([]container.Summary, error) {
	listed, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: byLabel(label)})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	return listed.Items, nil
}

func byLabel(label string) client.Filters {
	return make(client.Filters).Add("label", label)
}
