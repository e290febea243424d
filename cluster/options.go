package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Component is a part of a cluster that can be chosen, swapped and broken.
type Component string

// The components, by the names of upstream's programs; a Node is the machine with its Docker engine and kubelet. Routes
// stands beside each API server of containers and leads it to the pods: webhooks, extension servers, the proxy verb.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Routes            Component = "node-routes"
	Node              Component = "node"
)

// Components lists all components in the order in which a write travels.
func Components() []Component {
	return []Component{Etcd, APIServer, ControllerManager, Scheduler, Routes, Node}
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
	detached   bool
	progress   func(Event)
}

func newConfig(name string) *config {
	return &config{
		name: name, nodes: 1, apiservers: 1, etcds: 1, store: Memory,
		images: map[Component]string{
			Etcd: "quintet/etcd:dev", APIServer: "quintet/kube-apiserver:dev", Scheduler: "quintet/kube-scheduler:dev",
			ControllerManager: "quintet/kube-controller-manager:dev", Routes: "quintet/node-routes:dev", Node: "quintet/node:dev",
		},
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

// WithImage runs a component from another image, which must have upstream's program on its path.
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
		if component == APIServer {
			return errors.New("a cluster needs its API server")
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
		c.store = store
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

func known(component Component) error {
	if !slices.Contains(Components(), component) {
		return fmt.Errorf("no component %q; there are %v", component, Components())
	}
	return nil
}
