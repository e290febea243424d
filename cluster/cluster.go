// Package cluster brings whole Kubernetes clusters up for tests and takes them apart: in containers with real pods, or
// inside this process with hollow nodes, behind one API.
//
//	c, err := cluster.Start(ctx, cluster.WithNodes(2), cluster.WithImage(cluster.Scheduler, "mine:dev"))
//	if err != nil { ... }
//	defer c.Stop(context.Background())
//	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
//	c.Node(1).Pause(ctx)
//	c.Component(cluster.Scheduler).Kill(ctx)
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/cluster/internal/containers"
	"quintet.dev/quintet/cluster/internal/inprocess"
	"quintet.dev/quintet/cluster/owner"
)

// startTimeout bounds a start whose context has no deadline; cleanTimeout bounds removal.
const (
	startTimeout = 3 * time.Minute
	cleanTimeout = time.Minute
)

// Cluster is a running cluster. Its methods are safe for concurrent use; Stop may be called on nil.
type Cluster struct {
	config     *config
	backend    backend.Backend
	members    []*Member // etcd first, nodes last
	kubeconfig []byte
	rest       *rest.Config
}

// Start brings a cluster up and returns when it can run pods: its API server is ready, the default service account
// exists, and every node is ready. What a failed start made is removed.
func Start(ctx context.Context, opts ...Option) (*Cluster, error) {
	config := newConfig(randomName())
	for _, opt := range opts {
		if err := opt(config); err != nil {
			return nil, err
		}
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	c := &Cluster{config: config}
	s := &start{cluster: c}
	if err := perform(ctx, config.progress, s.steps()); err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("start cluster %s: %w", config.name, err), c.Stop(clean))
	}
	return c, nil
}

// start is the state of one start.
type start struct {
	cluster *Cluster
	layout  *layout
	plan    []backend.Member
}

func (s *start) steps() []step {
	return []step{
		{"prepare", s.prepare},
		{"start components", s.startMembers},
		{"wait for the API server", s.guarded(APIServer, s.apiReady)},
		{"deploy add-ons", s.guarded(APIServer, s.deployAddons)},
		{"wait for the controllers", s.guarded(ControllerManager, s.controllersReady)},
		{"wait for the nodes", s.guarded(Node, s.nodesReady)},
		{"wait for cluster DNS", s.guarded(Node, s.dnsReady)},
	}
}

// prepare makes the back end, the authorities, and the plan.
func (s *start) prepare(ctx context.Context) error {
	config := s.cluster.config
	made, err := newBackend(ctx, config)
	if err != nil {
		return err
	}
	s.cluster.backend = made
	site, err := made.Prepare(ctx, config.placements())
	if err != nil {
		return err
	}
	ids, err := newIdentities()
	if err != nil {
		return err
	}
	s.layout = &layout{config: config, site: site, ids: ids}
	if s.plan, err = s.layout.members(); err != nil {
		return err
	}
	for _, member := range s.plan {
		if conf, ok := member.Files[adminConf]; ok && s.cluster.kubeconfig == nil {
			s.cluster.kubeconfig = conf
		}
	}
	return s.cluster.connect()
}

func newBackend(ctx context.Context, config *config) (backend.Backend, error) {
	if config.inProcess {
		return inprocess.New(inprocess.Config{Cluster: config.name, Programs: programs(newMemoryStore())}), nil
	}
	belongsTo := containers.OwnerUser
	if !config.detached {
		var err error
		if belongsTo, err = owner.Self(); err != nil {
			return nil, err
		}
	}
	if existing, err := containers.List(ctx, config.name); err != nil {
		return nil, err
	} else if len(existing) > 0 {
		return nil, fmt.Errorf("a cluster %s exists; choose another name, or remove it: quintet down --name %s", config.name, config.name)
	}
	if reaped, err := containers.Reap(ctx); err != nil {
		config.progress(Event{Notice: fmt.Sprintf("could not remove what dead processes left behind: %v", err)})
	} else if len(reaped) > 0 {
		config.progress(Event{Notice: fmt.Sprintf("removed clusters of dead processes: %v", reaped)})
	}
	notice := func(text string) { config.progress(Event{Notice: text}) }
	return containers.New(ctx, containers.Config{
		Cluster: config.name, Owner: belongsTo, Notice: notice, IPv6: config.family != IPv4,
	})
}

// startMembers starts nodes, which take longest, beside the control plane, and there the API first: what finds it
// listening is spared a second of back-off. No member needs the order; each waits for the others by itself.
func (s *start) startMembers(ctx context.Context) error {
	started := &instances{byName: map[string]backend.Instance{}}
	group, ctx := errgroup.WithContext(ctx)
	for _, member := range s.pick(Node) {
		group.Go(func() error { return started.start(ctx, s.cluster.backend, member) })
	}
	group.Go(func() error {
		for _, wave := range [][]backend.Member{
			s.pick(Etcd, APIServer, APIBalancer), s.pick(ControllerManager, Scheduler, Routes, CloudProvider),
		} {
			group, ctx := errgroup.WithContext(ctx)
			for _, member := range wave {
				group.Go(func() error { return started.start(ctx, s.cluster.backend, member) })
			}
			if err := group.Wait(); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	for _, member := range s.plan {
		s.cluster.members = append(s.cluster.members, &Member{
			name: member.Name, component: Component(member.Component), instance: started.byName[member.Name],
		})
	}
	s.cluster.link()
	return nil
}

// link tells API servers what stands beside them.
func (c *Cluster) link() {
	for _, m := range c.members {
		if m.component != Routes {
			continue
		}
		if server := c.Member(besides(m.name)); server.missing == nil {
			server.companions = append(server.companions, m)
		}
	}
}

// pick finds the planned members of some components.
func (s *start) pick(components ...Component) []backend.Member {
	var picked []backend.Member
	for _, member := range s.plan {
		if slices.Contains(components, Component(member.Component)) {
			picked = append(picked, member)
		}
	}
	return picked
}

// instances are what was started, by member. It is safe for concurrent use.
type instances struct {
	mu     sync.Mutex
	byName map[string]backend.Instance
}

func (i *instances) start(ctx context.Context, b backend.Backend, m backend.Member) error {
	instance, err := b.Start(ctx, m)
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.byName[m.Name] = instance
	i.mu.Unlock()
	return nil
}

func (c *Cluster) connect() error {
	config, err := clientcmd.RESTConfigFromKubeConfig(c.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // tests measure and break the cluster, not the client
	c.rest = config
	return nil
}

// Name is the cluster's name.
func (c *Cluster) Name() string { return c.config.name }

// Kubeconfig is a kubeconfig file of a cluster administrator, for use on this machine.
func (c *Cluster) Kubeconfig() []byte { return slices.Clone(c.kubeconfig) }

// RESTConfig is client configuration of a cluster administrator. The caller owns the copy.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// LoadImage copies an image of the local Docker engine to every node.
func (c *Cluster) LoadImage(ctx context.Context, ref string) error {
	var machines []backend.Instance
	for _, m := range c.members {
		if m.component == Node {
			machines = append(machines, m.instance)
		}
	}
	return c.backend.Load(ctx, ref, machines)
}

// Stop removes the cluster and everything made for it.
func (c *Cluster) Stop(ctx context.Context) error {
	if c == nil || c.backend == nil {
		return nil
	}
	if err := errors.Join(c.backend.Close(ctx), c.backend.Release()); err != nil {
		return fmt.Errorf("stop cluster %s: %w", c.config.name, err)
	}
	return nil
}

func randomName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "q-" + hex.EncodeToString(b[:])
}
