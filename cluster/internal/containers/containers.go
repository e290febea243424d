// Package containers runs the members of a cluster as containers of the Docker engine that Testcontainers finds.
// Each cluster has a network of its own; everything made carries labels by which it is found and removed.
package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/testcontainers/testcontainers-go"

	"quintet.dev/quintet/cluster/internal/backend"
)

// rootDir is where upstream's images and kubeadm keep what a member is configured with.
const rootDir = "/etc/kubernetes"

// Config of a back end.
type Config struct {
	Cluster string
	// Owner is the value of LabelOwner: see owner.Self and OwnerUser.
	Owner string
	// Run tells one start from others, so that one that fails removes nothing of another: see Exclusively. Empty for a
	// cluster that was started before, which is then meant as a whole.
	Run string
	// Notice is called with notices for the user, e.g. how nodes get their privileges. Not nil.
	Notice func(string)
	// IPv6 gives members addresses of both families, instead of IPv4 alone.
	IPv6 bool
	// Overcommit lets members be bounded by more, together, than the engine's machine has.
	Overcommit bool
}

// Containers is a backend.Backend.
type Containers struct {
	config   Config
	docker   *testcontainers.DockerClient
	provider *testcontainers.DockerProvider
	podman   string // its version; empty for another engine

	mu         sync.Mutex
	networkID  string
	adopted    map[string]string // labels of a cluster that another process started
	network    subnets
	host       engineHost
	members    map[string]place
	privileges privileges

	told sync.Once // of the privileges
}

// place is where a member is to be.
type place struct {
	ips       []netip.Addr // of IPv4, and of IPv6 if the cluster has it
	published hostPort
}

// New connects to the Docker engine.
func New(ctx context.Context, c Config) (*Containers, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	podman, err := podmanVersion(ctx, docker)
	if err != nil {
		return nil, errors.Join(err, docker.Close())
	}
	provider, err := newProvider()
	if err != nil {
		return nil, errors.Join(err, docker.Close())
	}
	return &Containers{config: c, docker: docker, provider: provider, podman: podman, members: map[string]place{}}, nil
}

// Prepare makes the network and reserves addresses and ports.
func (c *Containers) Prepare(ctx context.Context, members []backend.Placement) (backend.Addressing, error) {
	if len(members) > maxMembers {
		return nil, fmt.Errorf("%d members: a cluster of containers has at most %d", len(members), maxMembers)
	}
	if err := c.checkResources(ctx, members); err != nil {
		return nil, err
	}
	id, made, err := c.createNetwork(ctx)
	if err != nil {
		return nil, err
	}
	host, err := findHost(ctx, c.docker, c.provider, made.gateway())
	if err != nil {
		return nil, err
	}
	free, err := newPorts(ctx, c.docker, host)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.networkID, c.network, c.host, c.privileges = id, made, host, likelyPrivileges(host)
	for i, m := range members {
		p := place{ips: made.member(i)}
		if m.Port != 0 {
			if p.published, err = free.next(); err != nil {
				return nil, err
			}
		}
		c.members[m.Name] = p
	}
	return addressing{c}, nil
}

// Close removes what Config.Run made: the cluster's containers, their volumes, and its network. A notice tells of a
// network that the engine keeps though nothing is in it; without Config.Run, that is an error.
func (c *Containers) Close(ctx context.Context) error {
	if c.config.Run == "" {
		return remove(ctx, c.docker, LabelCluster+"="+c.config.Cluster)
	}
	err := removeRun(ctx, c.docker, c.config.Run)
	if errors.Is(err, ErrMiscounted) {
		c.config.Notice(err.Error())
		return nil
	}
	return err
}

// Release closes the connections to Docker, and lets go of the ports of members that never started.
func (c *Containers) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.members {
		p.published.release()
	}
	return errors.Join(c.docker.Close(), c.provider.Close())
}

func (c *Containers) containerName(member string) string { return c.config.Cluster + "-" + member }

// networkName is the name of the network that a start makes. It is that start's alone, as the engine may fail to remove
// the network of one before; see disconnect.
func (c *Containers) networkName(run string) string {
	return "quintet-" + c.config.Cluster + "-" + strings.ToLower(fmt.Sprintf("%.8s", run))
}

func (c *Containers) place(member string) place {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[member]
}

// attachment is the network that members are on.
func (c *Containers) attachment() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.networkID
}

// engine is where ports of members are published.
func (c *Containers) engine() engineHost {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.host
}

func (c *Containers) subnets() subnets {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.network
}

// addressing is a backend.Addressing: members are hosts with usual ports on one network.
type addressing struct{ c *Containers }

func (addressing) Dir(string) string            { return rootDir }
func (s addressing) Host(member string) string  { return s.c.containerName(member) }
func (s addressing) Pools() []netip.Prefix      { return s.c.subnets().pools() }
func (addressing) Port(_ string, usual int) int { return usual }
func (s addressing) IPs(member string) []string {
	var out []string
	for _, ip := range s.c.place(member).ips {
		out = append(out, ip.String())
	}
	return out
}
func (s addressing) PublicHost() string { return s.c.engine().name }
func (s addressing) Endpoint(member string, _ int) string {
	return s.c.engine().address(s.c.place(member).published.number)
}
