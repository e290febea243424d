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
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/cluster/internal/containers"
	"quintet.dev/quintet/cluster/internal/inprocess"
	"quintet.dev/quintet/cluster/internal/mixed"
	"quintet.dev/quintet/cluster/owner"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/components/kubelet/fleet"
)

// startTimeout bounds a start whose context has no deadline, unless WithTimeout says else; cleanTimeout bounds removal.
const (
	startTimeout = 3 * time.Minute
	cleanTimeout = time.Minute
)

// Cluster is a running cluster. Its methods are safe for concurrent use; Stop may be called on nil.
type Cluster struct {
	config     *config
	backend    backend.Backend
	addressing backend.Addressing
	kubeconfig []byte
	rest       *rest.Config

	store        *memory.Store // of API servers in this process; nil without
	shifts       shifts        // of the clocks of members
	schedulerURL string
	merged       bool // into config.mergeInto

	ids        *identities // nil until they are needed, in a cluster that Open took hold of; guarded by loadingIDs
	loadingIDs sync.Mutex  // not held while changing is waited for
	changing   sync.Mutex  // held while nodes are added and removed

	mu      sync.RWMutex
	members []*Member // etcd first, nodes last; guarded by mu
}

// Start brings a cluster up and returns when it can run pods: its API server is ready, the default service account
// exists, and every node is ready. What a failed start made is removed.
//
// Images that the cluster runs from are built first if the Docker engine lacks them, which takes minutes the first
// time; see package images. The rest takes at most the time of WithTimeout.
func Start(ctx context.Context, opts ...Option) (*Cluster, error) {
	return launch(ctx, newConfig(randomName()), opts)
}

// launch is Start from a config, which it changes by the options.
func launch(ctx context.Context, config *config, opts []Option) (*Cluster, error) {
	for _, opt := range opts {
		if err := opt(config); err != nil {
			return nil, err
		}
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	if err := config.provideImages(ctx); err != nil {
		return nil, fmt.Errorf("start cluster %s: %w", config.name, err)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, config.timeout)
		defer cancel()
	}
	if config.inProcess {
		c, err := begin(ctx, config, "")
		if err != nil {
			return nil, fmt.Errorf("start cluster %s: %w", config.name, err)
		}
		return c, nil
	}
	var c *Cluster
	claim := containers.Claim{
		Cluster: config.name, Image: config.image(APIServer),
		Notice: func(text string) { config.progress(Event{Notice: text}) },
	}
	err := containers.Exclusively(ctx, claim, func(ctx context.Context, run string) (err error) {
		c, err = begin(ctx, config, run)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster %s: %w", config.name, err), c.stopAfter(ctx))
	}
	return c, nil
}

// begin carries out a start; run is what its containers are labelled with.
func begin(ctx context.Context, config *config, run string) (*Cluster, error) {
	c := &Cluster{config: config}
	s := &start{cluster: c, run: run}
	if err := perform(ctx, config.progress, s.steps()); err != nil {
		return nil, errors.Join(err, c.stopAfter(ctx))
	}
	return c, nil
}

// stopAfter removes what a failed start made, also if ctx ended. It may be called on nil.
func (c *Cluster) stopAfter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if c != nil && c.backend != nil && c.config.retain {
		return c.retained(ctx)
	}
	return c.Stop(ctx)
}

// retained leaves what a failed start made, and says where it is.
func (c *Cluster) retained(ctx context.Context) error {
	notice := fmt.Sprintf("kept what there is of cluster %s; look at it with quintet status and quintet logs, and "+
		"remove it with "+
		"quintet down --name %s", c.Name(), c.Name())
	c.config.progress(Event{Notice: notice})
	return errors.Join(c.unmerge(ctx), c.backend.Release())
}

// start is the state of one start.
type start struct {
	cluster *Cluster
	run     string
	layout  *layout
	plan    []backend.Member
}

// steps are those that the cluster needs.
func (s *start) steps() []step {
	c := s.cluster.config
	all := []struct {
		needed bool
		step
	}{
		{true, step{"prepare", s.prepare}},
		{true, step{"start components", s.startMembers}},
		{true, step{"wait for the API server", s.guarded(APIServer, s.apiReady)}},
		{c.from != nil, step{"take over nodes", s.guarded(APIServer, s.adopt)}},
		{true, step{"deploy add-ons", s.guarded(APIServer, s.deployAddons)}},
		{!c.without[ControllerManager], step{"wait for the controllers", s.guarded(ControllerManager, s.controllersReady)}},
		{len(c.names(Node)) > 0, step{"wait for the nodes", s.guarded(Node, s.nodesReady)}},
		{len(c.loaded)+len(c.archives)+len(c.nodeOptions) > 0, step{"set nodes up", s.nodesSetUp}},
		{c.hasDNS(), step{"wait for cluster DNS", s.guarded(Node, s.dnsReady)}},
		{c.runs(MetricsServer), step{"wait for the metrics server", s.guarded(MetricsServer, s.metricsReady)}},
		{c.runs(Registry), step{"wait for the registry", s.guarded(Registry, s.registryReady)}},
		{c.hasCSIDriver(), step{"wait for the CSI driver", s.guarded(Node, s.csiDriverReady)}},
		{c.hasDeviceDriver(), step{"wait for the device driver", s.guarded(Node, s.deviceDriverReady)}},
		{len(c.manifests) > 0, step{"apply manifests", s.guarded(APIServer, s.applyManifests)}},
		{c.mergeInto != "", step{"merge the kubeconfig", s.mergeKubeconfig}},
		{c.faults != nil, step{"begin faults", s.beginFaults}},
	}
	var needed []step
	for _, one := range all {
		if one.needed {
			needed = append(needed, one.step)
		}
	}
	return needed
}

// prepare makes the back end, the authorities, and the plan.
func (s *start) prepare(ctx context.Context) error {
	config := s.cluster.config
	made, err := s.newBackend(ctx, config)
	if err != nil {
		return err
	}
	s.cluster.backend = made
	addressing, err := made.Prepare(ctx, config.placements())
	if err != nil {
		return err
	}
	ids, err := config.identities()
	if err != nil {
		return err
	}
	s.layout = &layout{config: config, addressing: addressing, ids: ids}
	s.cluster.addressing, s.cluster.ids = addressing, ids
	if s.plan, err = s.layout.members(); err != nil {
		return err
	}
	for _, member := range s.plan {
		if conf, ok := member.Files[adminConf]; ok && s.cluster.kubeconfig == nil {
			s.cluster.kubeconfig = conf
		}
	}
	if names := config.names(Scheduler); len(names) > 0 {
		s.cluster.schedulerURL = schedulerURL(addressing, names[0])
	}
	return s.cluster.connect()
}

func (s *start) newBackend(ctx context.Context, config *config) (backend.Backend, error) {
	if config.inProcess {
		s.cluster.store = config.newMemoryStore()
		return s.cluster.newInProcess(), nil
	}
	belongsTo := containers.OwnerUser
	if !config.detached {
		var err error
		if belongsTo, err = owner.Self(); err != nil {
			return nil, err
		}
	}
	notice := func(text string) { config.progress(Event{Notice: text}) }
	made, err := containers.New(ctx, containers.Config{
		Cluster: config.name, Owner: belongsTo, Run: s.run, Notice: notice, IPv6: config.family != IPv4,
		Overcommit: config.overcommit,
	})
	if err != nil {
		return nil, err
	}
	any, reached := config.hasMembersBeside()
	if !any {
		return made, nil
	}
	if config.inThisProcess(APIServer) && len(config.names(Etcd)) == 0 {
		s.cluster.store = config.newMemoryStore()
	}
	return mixed.New(mixed.Config{Outer: made, Reached: reached, NewInner: func(address string) backend.Backend {
		return s.cluster.newHost().backend(config.name, address)
	}}), nil
}

// newInProcess makes the back end of a cluster whose members all run in this process.
func (c *Cluster) newInProcess() backend.Backend {
	host := c.newHost()
	made := host.backend(c.config.name, "")
	if host.clocks.count == nil {
		return made
	}
	return watched{made, c.config.clock.Watch(host.clocks.count.now)}
}

// newHost makes what runs members in this process.
func (c *Cluster) newHost() *host {
	var shared storage.Store
	if c.store != nil { // there may be no API server without etcd among them
		shared = c.store
	}
	clocks := c.config.clocks(shared)
	return &host{originals: programs(shared, clocks, c.newFleet(clocks)), programs: c.config.programs, clocks: clocks,
		shifts: &c.shifts}
}

// newFleet is what hollow nodes share. With a plan of faults they share nothing, so that each node's watches are
// disturbed by themselves.
func (c *Cluster) newFleet(clocks clocks) *fleet.Fleet {
	if c.config.faults != nil {
		return nil
	}
	return fleet.New(clocks.nodes, func() (*rest.Config, error) { return c.protobufConfig(), nil })
}

// protobufConfig is RESTConfig for clients of the built-in kinds only.
func (c *Cluster) protobufConfig() *rest.Config {
	config := c.RESTConfig()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

// backend listens on an address of this machine; "" is the loopback.
func (h *host) backend(cluster, address string) backend.Backend {
	return inprocess.New(inprocess.Config{Cluster: cluster, Host: address, Programs: h.processes()})
}

// startMembers starts nodes, which take longest, concurrently with the control plane, and there the API first: what
// finds it listening is spared a second of back-off. No member needs the order; each waits for the others by itself.
func (s *start) startMembers(ctx context.Context) error {
	started := &instances{byName: map[string]backend.Instance{}}
	group, ctx := errgroup.WithContext(ctx)
	for _, member := range s.pick(disk) {
		if err := started.start(ctx, s.cluster.backend, member); err != nil {
			return err
		}
	}
	for _, member := range s.pick(Node) {
		group.Go(func() error { return started.start(ctx, s.cluster.backend, member) })
	}
	group.Go(func() error {
		for _, members := range [][]backend.Member{
			s.pick(Etcd, APIServer, APIBalancer), s.pick(ControllerManager, Scheduler, Routes, CloudProvider,
				VolumeProvisioner, MetricsServer, Registry),
		} {
			group, ctx := errgroup.WithContext(ctx)
			for _, member := range members {
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
	var members []*Member
	for _, member := range s.plan {
		members = append(members, &Member{
			name: member.Name, component: Component(member.Component), instance: started.byName[member.Name],
		})
	}
	s.cluster.setMembers(members)
	s.cluster.link()
	return nil
}

// link configures API servers with the members that share their network.
func (c *Cluster) link() {
	for _, m := range c.Members() {
		if m.component != Routes {
			continue
		}
		if server := c.Member(besides(m.name)); server.missing == nil {
			server.addCompanion(m)
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

// SchedulerURL is where the scheduler serves its diagnostics, for use on this machine: /explain/NAMESPACE/POD tells why
// a pod has no node. It is empty for a cluster without a scheduler, and for one that Open took hold of.
func (c *Cluster) SchedulerURL() string { return c.schedulerURL }

func schedulerURL(addressing backend.Addressing, name string) string {
	return (&url.URL{Scheme: "https", Host: addressing.Endpoint(name, schedulerPort)}).String()
}

// HostAddress is the address of this process for the cluster's members, API servers first of all: webhooks and
// extension servers of a test listen there, on any port. Where the containers are on another machine there is none.
func (c *Cluster) HostAddress(ctx context.Context) (string, error) {
	if outer, ok := c.backend.(mixed.Outer); ok {
		return outer.HostAddress(ctx)
	}
	return "127.0.0.1", nil
}

// Name is the cluster's name.
func (c *Cluster) Name() string { return c.config.name }

// Kubeconfig is a kubeconfig file of a cluster administrator, for use on this machine.
func (c *Cluster) Kubeconfig() []byte { return slices.Clone(c.kubeconfig) }

// RESTConfig is client configuration of a cluster administrator. The caller owns the copy.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// Stop removes the cluster and everything made for it.
func (c *Cluster) Stop(ctx context.Context) error {
	if c == nil || c.backend == nil {
		return nil
	}
	err := errors.Join(c.unmerge(ctx), c.backend.Close(ctx), c.backend.Release())
	if c.store != nil {
		err = errors.Join(err, c.store.Close()) // the members that use it have ended
	}
	if err != nil {
		return fmt.Errorf("stop cluster %s: %w", c.config.name, err)
	}
	return nil
}

func randomName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "q-" + hex.EncodeToString(b[:])
}
