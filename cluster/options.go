package cluster

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Component is a part of a cluster that can be chosen, swapped and broken.
type Component string

// The components, by the names of upstream's programs; a Node is the machine with its Docker engine and kubelet. Routes
// is the pod network: it runs on nodes, and beside each API server of containers, which it leads to the pods (webhooks,
// extension servers, the proxy verb). KubeProxy and NetworkPolicy run on the nodes, DNS in pods. APIBalancer stands
// before several API servers. CloudProvider gives Services of type LoadBalancer addresses of the cluster's network.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	APIBalancer       Component = "api-balancer"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Routes            Component = "node-routes"
	Node              Component = "node"
	KubeProxy         Component = "kube-proxy"
	NetworkPolicy     Component = "network-policy"
	DNS               Component = "coredns"
	CloudProvider     Component = "cloud-provider"
)

// Components lists all components in the order in which a write travels.
func Components() []Component {
	return []Component{
		Etcd, APIServer, APIBalancer, ControllerManager, Scheduler, Routes, Node, KubeProxy,
		NetworkPolicy, DNS, CloudProvider,
	}
}

// Store is what an in-process API server keeps its objects in.
type Store string

const (
	Memory       Store = "memory" // the fastest; objects survive a restart of the API server
	EmbeddedEtcd Store = "etcd3"  // a real etcd inside this process
)

// Option changes what Start makes.
type Option func(*config) error

// config is flat: what the options add up to.
type config struct {
	name       string
	nodes      int
	apiservers int
	etcds      int
	images     map[Component]string
	args       map[Component][]string
	without    map[Component]bool
	inProcess  bool
	store      Store
	storeSet   bool
	detached   bool
	publish    map[int]int // ports of this machine to node ports
	family     IPFamily
	progress   func(Event)
}

func newConfig(name string) *config {
	return &config{
		name: name, nodes: 1, apiservers: 1, etcds: 1, store: Memory, family: IPv4,
		images:   map[Component]string{},
		publish:  map[int]int{},
		args:     map[Component][]string{},
		without:  map[Component]bool{},
		progress: func(Event) {},
	}
}

// validName keeps names fit for containers, hosts and files.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// WithName names the cluster; clusters that run at once need different names. The default is random.
func WithName(name string) Option {
	return func(c *config) error {
		if !validName.MatchString(name) {
			return fmt.Errorf("cluster name %q: use at most 40 lower-case letters, digits and dashes", name)
		}
		c.name = name
		return nil
	}
}

// WithNodes sets the number of nodes; 0 makes a control plane without. The default is 1.
func WithNodes(n int) Option { return count("nodes", 0, n, func(c *config) { c.nodes = n }) }

// WithAPIServers sets the number of API servers over one etcd. The default is 1.
func WithAPIServers(n int) Option {
	return count("API servers", 1, n, func(c *config) { c.apiservers = n })
}

// WithEtcdMembers sets the size of the etcd cluster; take an odd number. The default is 1.
func WithEtcdMembers(n int) Option {
	return count("etcd members", 1, n, func(c *config) { c.etcds = n })
}

func count(what string, least, n int, set func(*config)) Option {
	return func(c *config) error {
		if n < least {
			return fmt.Errorf("%d %s: at least %d", n, what, least)
		}
		set(c)
		return nil
	}
}

// image is what a component runs from.
func (c *config) image(component Component) string {
	if ref, ok := c.images[component]; ok {
		return ref
	}
	return "quintet/" + string(component) + ":dev"
}

// WithPublishedPort makes a node port reachable at a port of 127.0.0.1 of this machine, through the first node. It is
// how programs on this machine, and on others through it, use a Service.
func WithPublishedPort(hostPort, nodePort int) Option {
	return func(c *config) error {
		if hostPort < 1 || hostPort > 65535 || nodePort < 1 || nodePort > 65535 {
			return fmt.Errorf("published port %d:%d: ports are between 1 and 65535", hostPort, nodePort)
		}
		if taken, ok := c.publish[hostPort]; ok && taken != nodePort {
			return fmt.Errorf("published port %d:%d: port %d is published already", hostPort, nodePort, hostPort)
		}
		c.publish[hostPort] = nodePort
		return nil
	}
}

// WithIPFamily chooses the addresses of nodes, pods and Services. The default is IPv4.
func WithIPFamily(family IPFamily) Option {
	return func(c *config) error {
		if !slices.Contains(IPFamilies(), family) {
			return fmt.Errorf("IP family %q: use one of %v", family, IPFamilies())
		}
		c.family = family
		return nil
	}
}

// WithoutDNS leaves cluster DNS out: names of Services don't resolve, and a start need not wait for it.
func WithoutDNS() Option { return Without(DNS) }

// WithImage runs a component from another image, which must have upstream's program on its path. KubeProxy then runs as
// a DaemonSet, as kubeadm has it, instead of as a process of the node.
func WithImage(component Component, ref string) Option {
	return func(c *config) error {
		if err := known(component); err != nil {
			return err
		}
		c.images[component] = ref
		return nil
	}
}

// WithArgs adds arguments to a component's command line, after those that Quintet gives; a node's are the kubelet's.
func WithArgs(component Component, args ...string) Option {
	return func(c *config) error {
		if err := known(component); err != nil {
			return err
		}
		c.args[component] = append(c.args[component], args...)
		return nil
	}
}

// Without leaves a component out, so that a test can run its own against the rest.
func Without(component Component) Option {
	return func(c *config) error {
		if err := known(component); err != nil {
			return err
		}
		switch component {
		case APIServer:
			return errors.New("a cluster needs its API server")
		case APIBalancer:
			return errors.New("several API servers need their balancer; a single one has none")
		}
		c.without[component] = true
		return nil
	}
}

// InProcess runs all components inside this process, without Docker; its nodes are hollow: their pods only pretend.
func InProcess() Option {
	return func(c *config) error { c.inProcess = true; return nil }
}

// WithStore chooses the store of an in-process cluster; the default is Memory.
func WithStore(store Store) Option {
	return func(c *config) error {
		if store != Memory && store != EmbeddedEtcd {
			return fmt.Errorf("store %q: %s or %s", store, Memory, EmbeddedEtcd)
		}
		c.store, c.storeSet = store, true
		return nil
	}
}

// Detached leaves the cluster running when this process ends. It is removed by name (Remove, `quintet down`).
func Detached() Option {
	return func(c *config) error { c.detached = true; return nil }
}

// WithProgress is told every step. report is called from one goroutine at a time and must not block.
func WithProgress(report func(Event)) Option {
	return func(c *config) error { c.progress = report; return nil }
}

// check refuses options that exclude each other or that nothing would come of.
func (c *config) check() error {
	if !c.inProcess {
		if c.storeSet {
			return fmt.Errorf("store %s: only a cluster in process has a choice; one of containers keeps its objects in etcd", c.store)
		}
		if len(c.publish) > 0 && (c.nodes == 0 || c.without[Node]) {
			return errors.New("published ports: the cluster has no node")
		}
		if _, ok := c.images[NetworkPolicy]; ok {
			return fmt.Errorf("image of %s: it is a process of the nodes; leave it out and deploy another one", NetworkPolicy)
		}
		return nil
	}
	switch {
	case c.detached:
		return errors.New("detached: a cluster in process ends with its process")
	case len(c.images) > 0:
		return fmt.Errorf("image of %s: a cluster in process runs no images", slices.Sorted(maps.Keys(c.images))[0])
	case c.etcds > 1:
		return fmt.Errorf("%d etcd members: a cluster in process has one", c.etcds)
	case len(c.publish) > 0:
		return errors.New("published ports: the nodes of a cluster in process are hollow")
	case c.family != IPv4:
		return fmt.Errorf("IP family %s: a cluster in process has IPv4 only", c.family)
	}
	for _, component := range []Component{KubeProxy, NetworkPolicy, DNS, CloudProvider, Routes} {
		if len(c.args[component]) > 0 {
			return fmt.Errorf("arguments of %s: a cluster in process has none, as its pods only pretend", component)
		}
	}
	return nil
}

func known(component Component) error {
	if !slices.Contains(Components(), component) {
		return fmt.Errorf("no component %q; there are %v", component, Components())
	}
	return nil
}
