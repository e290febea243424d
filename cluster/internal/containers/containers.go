// Package containers runs the members of a cluster as containers of the local Docker engine, through Testcontainers.
// Each cluster has a network of its own; everything made carries labels by which it is found and removed.
package containers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"quintet.dev/quintet/cluster/internal/backend"
)

// rootDir is where upstream's images and kubeadm keep what a member is configured with.
const rootDir = "/etc/kubernetes"

// Config of a back end.
type Config struct {
	Cluster string
	// Owner is the value of LabelOwner: see owner.Self and OwnerUser.
	Owner string
	// Notice is told what a user may want to know, e.g. how nodes get their privileges. Not nil.
	Notice func(string)
	// IPv6 gives members addresses of both families, instead of IPv4 alone.
	IPv6 bool
}

// Containers is a backend.Backend.
type Containers struct {
	config   Config
	start    string // of this start, so that a start that fails removes nothing of another one; "" for what was attached to
	docker   *testcontainers.DockerClient
	provider *testcontainers.DockerProvider

	mu         sync.Mutex
	network    subnets
	members    map[string]place
	privileges privileges

	told sync.Once // of the privileges
}

// place is where a member is to be.
type place struct {
	ips       []netip.Addr // of IPv4, and of IPv6 if the cluster has it
	published int          // the port on 127.0.0.1, or 0
}

// New connects to the Docker engine.
func New(ctx context.Context, c Config) (*Containers, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	provider, err := testcontainers.NewDockerProvider(
		testcontainers.WithLogger(log.NewNoopLogger()), testcontainers.WithDefaultBridgeNetwork(testcontainers.Bridge))
	if err != nil {
		_ = docker.Close()
		return nil, fmt.Errorf("connect to Docker: %w", err)
	}
	return &Containers{
		config: c, start: rand.Text(), docker: docker, provider: provider, members: map[string]place{}, privileges: likelyPrivileges(),
	}, nil
}

// connect opens a client. Testcontainers' own clean-up is a container whose image would have to be pulled, and it
// can't keep a cluster alive past this process; ours is by label. The environment is the only way to say so.
func connect(ctx context.Context) (*testcontainers.DockerClient, error) {
	const ryuk = "TESTCONTAINERS_RYUK_DISABLED"
	if _, set := os.LookupEnv(ryuk); !set {
		if err := os.Setenv(ryuk, "true"); err != nil {
			return nil, err
		}
	}
	introduce.Do(func() {
		kept := log.Default()
		log.SetDefault(log.NewNoopLogger())
		defer log.SetDefault(kept)
		if docker, err := testcontainers.NewDockerClientWithOpts(ctx); err == nil {
			_ = docker.Close()
		}
	})
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err == nil {
		_, err = docker.Ping(ctx, client.PingOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("no Docker engine (is it started, and may this user reach it?): %w", err)
	}
	return docker, nil
}

// introduce spends, once per process, the ten lines that Testcontainers prints about the engine when it first meets it.
var introduce sync.Once

// Prepare makes the network and reserves addresses and ports.
func (c *Containers) Prepare(ctx context.Context, members []backend.Placement) (backend.Site, error) {
	if len(members) > maxMembers {
		return nil, fmt.Errorf("%d members: a cluster of containers has at most %d", len(members), maxMembers)
	}
	made, err := c.createNetwork(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.network = made
	var free ports
	defer free.release()
	for i, m := range members {
		p := place{ips: made.member(i)}
		if m.Port != 0 {
			if p.published, err = free.next(); err != nil {
				return nil, err
			}
		}
		c.members[m.Name] = p
	}
	return site{c}, nil
}

// ports chooses ports by number: a container that is restarted must keep its port, which Docker grants only to a number given
// at its creation. Each is held until all are chosen, lest one be chosen twice.
type ports []net.Listener

func (p *ports) next() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	*p = append(*p, listener)
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func (p *ports) release() {
	for _, listener := range *p {
		_ = listener.Close()
	}
}

// Close removes the cluster's containers, their volumes, and its network.
func (c *Containers) Close(ctx context.Context) error {
	if c.start != "" {
		return remove(ctx, c.docker, LabelRun+"="+c.start)
	}
	return remove(ctx, c.docker, LabelCluster+"="+c.config.Cluster)
}

// Release closes the connections to Docker.
func (c *Containers) Release() error { return errors.Join(c.docker.Close(), c.provider.Close()) }

func (c *Containers) containerName(member string) string { return c.config.Cluster + "-" + member }

func (c *Containers) networkName() string { return "quintet-" + c.config.Cluster }

func (c *Containers) place(member string) place {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[member]
}

func (c *Containers) subnets() subnets {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.network
}

// site is a backend.Site: members are hosts with usual ports on one network.
type site struct{ c *Containers }

func (site) Dir(string) string            { return rootDir }
func (s site) Host(member string) string  { return s.c.containerName(member) }
func (s site) Pools() []netip.Prefix      { return s.c.subnets().pools() }
func (site) Port(_ string, usual int) int { return usual }
func (s site) IPs(member string) []string {
	var out []string
	for _, ip := range s.c.place(member).ips {
		out = append(out, ip.String())
	}
	return out
}
func (s site) Endpoint(member string, _ int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.c.place(member).published))
}

// imageMissing says what to do about an image that the engine lacks.
func (c *Containers) imageMissing(ctx context.Context, ref string) error {
	_, err := c.docker.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("the Docker engine has no image %s: build or pull it first (Quintet's own: make images)", ref)
	}
	return err
}
