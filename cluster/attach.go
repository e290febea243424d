package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quintet.dev/quintet/cluster/internal/containers"
	"quintet.dev/quintet/cluster/internal/inprocess"
)

// Info is what Docker knows of a member, of any cluster on this machine.
type Info struct {
	Cluster   string    `json:"cluster"`
	Member    string    `json:"member"`
	Component Component `json:"component"`
	Image     string    `json:"image"`
	State     string    `json:"state"`
	Status    string    `json:"status"`
	Created   time.Time `json:"created"`
	// Joined tells that it is a node which joined by a token.
	Joined bool `json:"joined,omitempty"`
}

// List finds the members of a cluster of containers, or of all if name is empty.
func List(ctx context.Context, name string) ([]Info, error) {
	found, err := containers.List(ctx, name)
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, f := range found {
		infos = append(infos, Info{
			Cluster: f.Cluster, Member: f.Member, Component: Component(f.Component),
			Image: f.Image, State: f.State, Status: f.Status, Created: f.Created, Joined: f.Joined,
		})
	}
	return infos, nil
}

// Names lists the clusters of containers on this machine's Docker engine, also those that are being started, or of
// which a crash left a part.
func Names(ctx context.Context) ([]string, error) { return containers.Names(ctx) }

// Open takes hold of a cluster of containers that any process started.
func Open(ctx context.Context, name string) (*Cluster, error) {
	infos, err := List(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return nil,
			fmt.Errorf("no cluster %s has come up; `quintet status` lists those that exist, `quintet up --name %s` starts it",
				name, name)
	}
	attached, instances, err := containers.Attach(ctx, name)
	if err != nil {
		return nil, err
	}
	c := &Cluster{config: newConfig(name), backend: attached}
	var members []*Member
	for _, info := range infos {
		members = append(members,
			&Member{name: info.Member, component: info.Component, instance: instances[info.Member]})
	}
	c.setMembers(members)
	c.link()
	servers := c.Component(APIServer).Members
	if len(servers) == 0 {
		return nil, fmt.Errorf("cluster %s has no API server; it was left half-made: quintet down --name %s", name,
			name)
	}
	if c.kubeconfig, err = servers[0].instance.ReadFile(ctx, adminConf); err != nil {
		return nil, err
	}
	return c, c.connect()
}

// Connect takes hold of the API of a cluster by its kubeconfig, without any of its members: of one in another process.
func Connect(name string, kubeconfig []byte) (*Cluster, error) {
	c := &Cluster{config: newConfig(name), kubeconfig: kubeconfig}
	return c, c.connect()
}

// ErrNetworkKept is returned when all of a cluster is gone but a network that has no container, and that the engine
// does not remove before it starts again. It is in no cluster's way; a later RemoveAll removes it.
var ErrNetworkKept = containers.ErrMiscounted

// Remove removes a cluster of containers by name; one that does not exist is no error. It may return an
// ErrNetworkKept.
func Remove(ctx context.Context, name string) error {
	attached, _, err := containers.Attach(ctx, name)
	if err != nil {
		return err
	}
	return errors.Join(attached.Close(ctx), attached.Release())
}

// RemoveAll removes every cluster of containers on this machine's Docker engine, also what crashes left behind, and
// returns their names. It also removes files of clusters whose process ended without a chance to do so. It may return
// an ErrNetworkKept.
func RemoveAll(ctx context.Context) ([]string, error) {
	files := inprocess.Reap()
	names, err := containers.RemoveAll(ctx)
	if files != nil && err != nil {
		return names, fmt.Errorf("%w; %v", files, err) // an ErrNetworkKept tells that nothing else is wrong
	}
	return names, errors.Join(files, err)
}

// Close releases the resources of Open; the cluster keeps running. It may be called on nil.
func (c *Cluster) Close() error {
	if c == nil || c.backend == nil {
		return nil
	}
	return c.backend.Release()
}
