package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quintet.dev/quintet/clock"
	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/faults"
	"quintet.dev/quintet/images"
)

// Component is a part of a cluster that can be chosen, swapped and broken.
type Component string

// The components, by the names of upstream's programs; a Node is the machine with its Docker engine and kubelet. Routes
// is the pod network: it runs on nodes, and with each API server of containers, which it leads to the pods (webhooks,
// extension servers, the proxy verb). KubeProxy, NetworkPolicy and VolumeProvisioner run on the nodes, DNS in pods.
// APIBalancer stands before several API servers. CloudProvider gives Services of type LoadBalancer addresses of the
// cluster's network. MetricsServer serves metrics.k8s.io; a cluster has it only WithMetricsServer. CSIDriver is a CSI
// driver in pods; a cluster has it only WithCSIDriver. VolumeProvisioner makes the volumes of the default StorageClass,
// which comes and goes with it. DeviceDriver is a driver of
// devices in pods; a cluster has it only WithDeviceDriver. Registry keeps images for the nodes; a cluster has it only
// WithRegistry.
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
	VolumeProvisioner Component = "volume-provisioner"
	DNS               Component = "coredns"
	CloudProvider     Component = "cloud-provider"
	MetricsServer     Component = "metrics-server"
	CSIDriver         Component = "csi-driver"
	DeviceDriver      Component = "device-driver"
	Registry          Component = "registry"
)

// Components lists all components in the order in which a write travels.
func Components() []Component {
	return []Component{
		Etcd, APIServer, APIBalancer, ControllerManager, Scheduler, Routes, Node, KubeProxy,
		NetworkPolicy, VolumeProvisioner, DNS, CloudProvider, MetricsServer, CSIDriver, DeviceDriver,
		Registry,
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
	nodesSet   bool // by WithNodes, and not by the number of nodeOptions
	roomSet    int  // how many nodes the ranges of pod addresses are made for; 0 goes by nodes
	apiservers int
	etcds      int
	images     map[Component]string
	built      map[Component]string // references of images that were built for this cluster
	args       map[Component][]string
	without    map[Component]bool
	metrics    bool
	csi        bool
	devices    bool
	registry   bool
	// registryUser must be given to the registry, if it is not empty.
	registryUser account
	mirrors      []string // of Docker Hub
	insecure     []string // registries
	inProcess    bool
	store        Store
	storeSet     bool
	detached     bool
	publish      map[int]int // ports of this machine to node ports
	family       IPFamily
	progress     func(Event)
	faults       *faults.Plan // nil where API servers can't be disturbed
	clock        *clock.Clock // nil is real time

	runtime       Runtime           // of nodes in containers; "" is Docker
	diskSize      int64             // of each etcd member's disk, in bytes; 0 is the machine's
	nodeDisk      int64             // of each node's disk, in bytes; 0 is the machine's
	nodeResources backend.Resources // of each node; 0 is no bound
	overcommit    bool
	shutdown      shutdownPeriods

	nodeOptions []NodeOptions
	files       map[Component]map[string][]byte // by path below configDir
	loaded      []string                        // images of the local engine
	archives    []string                        // files with images
	schedulers  int
	managers    int
	mergeInto   string // a kubeconfig file; empty for none
	retain      bool
	timeout     time.Duration

	from *Snapshot // that the cluster goes on from; may be nil

	manifests     []*unstructured.Unstructured
	waitManifests bool

	programs map[Component]Program // that run in this process instead of components
}

func newConfig(name string) *config {
	return &config{
		name: name, nodes: 1, apiservers: 1, etcds: 1, schedulers: 1, managers: 1, store: Memory, family: IPv4,
		images:   map[Component]string{},
		built:    map[Component]string{},
		programs: map[Component]Program{},
		publish:  map[int]int{},
		args:     map[Component][]string{},
		without:  map[Component]bool{},
		files:    map[Component]map[string][]byte{},
		progress: func(Event) {}, timeout: startTimeout,
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
func WithNodes(n int) Option {
	return count("nodes", 0, n, func(c *config) { c.nodes, c.nodesSet = n, true })
}

// WithAPIServers sets the number of API servers over one etcd. The default is 1.
func WithAPIServers(n int) Option {
	return count("API servers", 1, n, func(c *config) { c.apiservers = n })
}

// WithEtcdMembers sets the size of the etcd cluster; take an odd number. The default is 1.
func WithEtcdMembers(n int) Option {
	return count("etcd members", 1, n, func(c *config) { c.etcds = n })
}

// WithSchedulers sets the number of schedulers, of which one is the leader. The default is 1, without leader election.
func WithSchedulers(n int) Option {
	return count("schedulers", 1, n, func(c *config) { c.schedulers = n })
}

// WithControllerManagers sets the number of controller managers, of which one is the leader. The default is 1, without
// leader election.
func WithControllerManagers(n int) Option {
	return count("controller managers", 1, n, func(c *config) { c.managers = n })
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
	if ref, ok := c.built[component]; ok {
		return ref
	}
	return "quintet/" + string(component) + ":" + images.Latest
}

// WithPublishedPort makes a node port reachable at a port of 127.0.0.1 of this machine, through the first node. It is
// how programs on this machine, and on others through it, use a Service. Where the Docker engine is on another host
// (DOCKER_HOST, TESTCONTAINERS_HOST_OVERRIDE), the port is that host's, on all of its addresses, as are those of the
// API servers and etcd.
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

// WithoutDefaultStorageClass leaves out the StorageClass "standard", and what makes its volumes: claims without a class
// then wait for a volume or for a default class of the user's.
func WithoutDefaultStorageClass() Option { return Without(VolumeProvisioner) }

// WithMetricsServer adds the component MetricsServer, which HorizontalPodAutoscalers and `kubectl top` need. It asks
// every kubelet each 15 seconds; WithArgs(MetricsServer, "--metric-resolution=1s") has it ask more often.
func WithMetricsServer() Option {
	return func(c *config) error { c.metrics = true; return nil }
}

// WithCSIDriver adds the component CSIDriver: a CSI driver whose volumes are directories and files of the nodes, with
// the StorageClass "csi" and a CSIDriver for persistent and inline volumes. It attaches, mounts, expands and clones
// volumes; block volumes need loop devices, which nodes have where privileged containers are allowed. Its pods log each
// call as a line of JSON. WithArgs(CSIDriver, "--attach-limit=2") limits the volumes of a node, "--capacity=1Gi" their
// size together.
func WithCSIDriver() Option {
	return func(c *config) error { c.csi = true; return nil }
}

// WithDeviceDriver adds the component DeviceDriver: a driver of devices for tests, on each node. Its device plug-in
// offers the extended resource "quintet.dev/device", and its DRA driver "device.quintet.dev" publishes devices for
// ResourceClaims, with a DeviceClass of that name. The annotation device.quintet.dev/unhealthy of a Node makes devices
// unhealthy, and the pods of the driver log each call as a line of JSON. WithArgs(DeviceDriver, "--devices=8",
// "--claim-devices=2", "--numa-nodes=2") changes how many there are.
func WithDeviceDriver() Option {
	return func(c *config) error { c.devices = true; return nil }
}

// With adds a component that is off by default: MetricsServer, CSIDriver, DeviceDriver or Registry.
func With(component Component) Option {
	switch component {
	case MetricsServer:
		return WithMetricsServer()
	case CSIDriver:
		return WithCSIDriver()
	case DeviceDriver:
		return WithDeviceDriver()
	case Registry:
		return WithRegistry()
	}
	return func(*config) error {
		return fmt.Errorf("component %q can't be added; off by default are %s, %s, %s and %s", component, MetricsServer,
			CSIDriver, DeviceDriver, Registry)
	}
}

// WithImage runs a component from another image, which must have upstream's program on its path. KubeProxy then runs as
// a DaemonSet, as kubeadm has it, instead of as a process of the node. Routes is replaced so with API servers; on
// nodes it is the node image's.
func WithImage(component Component, ref string) Option {
	return func(c *config) error {
		if err := known(component); err != nil {
			return err
		}
		if ref == "" {
			return fmt.Errorf("image of %s: empty", component)
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

// RetainOnFailure keeps what a start that fails has made, to look at: `quintet status`, `quintet logs`, docker inspect.
// It is removed by name (Remove, `quintet down`), or, unless it is Detached, when this process has ended and another
// start removes what dead processes left.
func RetainOnFailure() Option {
	return func(c *config) error { c.retain = true; return nil }
}

// WithTimeout sets how long a start may take whose context has no deadline, without the time that images are built. The
// default is 3 minutes.
func WithTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("timeout %v: must be more than 0", d)
		}
		c.timeout = d
		return nil
	}
}

// Detached leaves the cluster running when this process ends. It is removed by name (Remove, `quintet down`).
func Detached() Option {
	return func(c *config) error { c.detached = true; return nil }
}

// WithProgress sets a callback for every step. report is called from one goroutine at a time and must not block.
func WithProgress(report func(Event)) Option {
	return func(c *config) error {
		if report == nil {
			return errors.New("progress: no function to report to")
		}
		c.progress = report
		return nil
	}
}

func known(component Component) error {
	if !slices.Contains(Components(), component) {
		return fmt.Errorf("no component %q; there are %v", component, Components())
	}
	return nil
}
