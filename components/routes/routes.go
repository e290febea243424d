// Package routes is the pod network of a node: for each other node it keeps a kernel route from its pod CIDR to its
// internal address, it gives packets of pods that leave the cluster the node's address, and it lets connections between
// pods of one node pass the node's IP stack. Nodes must share a link.
package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/informer"
	"quintet.dev/quintet/internal/kubeconfig"
)

// Config selects the routes to keep.
type Config struct {
	Kubeconfig       string
	HostnameOverride string
	// Forward lets the machine forward packets, which a node must: they are its pods'.
	Forward bool
	// PodBridge is the interface that the node's pods hang on. It need not exist yet.
	PodBridge string
	// Resync is how often the kernel's routes and rules are compared without a cause.
	Resync time.Duration

	// Injected by tests, instead of a kubeconfig, the kernel and the system's clock. Without Forward there is no
	// Filter.
	Client kubernetes.Interface
	Table  Table
	Filter Filter
	Clock  clock.WithTicker
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Forward: true, PodBridge: "cbr0", Resync: 30 * time.Second} }

// AddFlags adds the flags of the program.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "How to reach the API server.")
	fs.StringVar(&c.HostnameOverride, "hostname-override", c.HostnameOverride,
		"Name of this node instead of the machine's host name.")
	fs.BoolVar(&c.Forward, "forward", c.Forward, "Let this machine forward packets, and translate those of its pods that "+
		"leave the cluster. A machine without pods, such as an API server's, need not.")
	fs.StringVar(&c.PodBridge, "pod-bridge", c.PodBridge, "The bridge that the pods of this node hang on.")
	fs.DurationVar(&c.Resync, "sync-period", c.Resync,
		"How often routes and rules are compared with the nodes without a cause.")
}

// Route leads to a node's pods.
type Route struct {
	Destination string // CIDR
	Via         string // IP address
}

// Table is the kernel's routing table, as far as it is ours.
type Table interface {
	// Forward lets the machine forward packets.
	Forward() error
	// Bridge returns the hardware address of an interface, or "" while it does not exist.
	Bridge(name string) (string, error)
	// Watch sends to changed, without blocking, whenever the interface comes, goes or changes, until ctx ends.
	Watch(ctx context.Context, name string, changed chan<- struct{}) error
	// List returns the routes that Set made.
	List() ([]Route, error)
	// Set adds a route or changes it.
	Set(Route) error
	// Delete removes a route; one that is gone is no error.
	Delete(Route) error
}

// Routes keeps the routes of one node.
type Routes struct {
	config Config
	name   string
}

// New checks the configuration.
func New(config Config) (*Routes, error) {
	if config.Client == nil {
		if config.Kubeconfig == "" {
			return nil, errors.New("--kubeconfig is required")
		}
		rest, err := kubeconfig.Load(config.Kubeconfig, 20)
		if err != nil {
			return nil, err
		}
		rest.Burst = 40
		rest.ContentType = runtime.ContentTypeProtobuf
		rest.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		if config.Client, err = kubernetes.NewForConfig(rest); err != nil {
			return nil, err
		}
	}
	if config.Resync <= 0 {
		return nil, fmt.Errorf("--sync-period %v: use a duration greater than 0", config.Resync)
	}
	if config.Table == nil {
		config.Table = kernel{}
	}
	if config.Filter == nil && config.Forward {
		var err error
		if config.Filter, err = newPacketFilter(); err != nil {
			return nil, err
		}
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	name := config.HostnameOverride
	if name == "" {
		hostname, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("host name (or give --hostname-override): %w", err)
		}
		name = hostname
	}
	return &Routes{config: config, name: strings.ToLower(strings.TrimSpace(name))}, nil
}

// Run keeps the routes until ctx ends; they stay when it returns, as pods do.
func (r *Routes) Run(ctx context.Context) error {
	if r.config.Forward {
		if err := r.config.Table.Forward(); err != nil {
			return fmt.Errorf("let packets be forwarded (is this run as root?): %w", err)
		}
	}
	factory := informer.NewFactory(r.config.Client, 0, nil)
	nodes := factory.Core().V1().Nodes()
	wake := make(chan struct{}, 1)
	poke := func(any) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: poke, UpdateFunc: func(_, now any) { poke(now) }, DeleteFunc: poke,
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced) {
		return ctx.Err()
	}
	if r.config.Forward {
		if err := r.config.Table.Watch(ctx, r.config.PodBridge, wake); err != nil {
			return fmt.Errorf("watch the machine's interfaces: %w", err)
		}
	}
	ticker := r.config.Clock.NewTicker(r.config.Resync)
	defer ticker.Stop()
	for {
		all, err := nodes.Lister().List(labels.Everything())
		if err == nil {
			err = errors.Join(apply(r.config.Table, Wanted(all, r.name)), r.translate(ctx, all))
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to sync routes; retrying")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		case <-ticker.C():
		}
	}
}

// Wanted are the routes that the node called self needs to reach the pods of all others.
func Wanted(nodes []*v1.Node, self string) []Route {
	var routes []Route
	for _, node := range nodes {
		if node.Name == self {
			continue
		}
		for _, cidr := range podCIDRs(node) {
			ip, network, err := net.ParseCIDR(cidr)
			if err != nil {
				continue // the API server does not admit such
			}
			if via := internalIP(node, ip.To4() != nil); via != "" {
				routes = append(routes, Route{Destination: network.String(), Via: via})
			}
		}
	}
	slices.SortFunc(routes, func(a, b Route) int {
		return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Via, b.Via))
	})
	return slices.Compact(routes)
}

func podCIDRs(node *v1.Node) []string {
	if len(node.Spec.PodCIDRs) == 0 && node.Spec.PodCIDR != "" {
		return []string{node.Spec.PodCIDR}
	}
	return node.Spec.PodCIDRs
}

// translate brings the packet filter up to date on a machine with pods.
func (r *Routes) translate(ctx context.Context, nodes []*v1.Node) error {
	if !r.config.Forward {
		return nil
	}
	wanted := WantedTranslation(nodes, r.name)
	mac, err := r.config.Table.Bridge(r.config.PodBridge)
	if err != nil {
		return err
	}
	wanted.BridgeMAC = mac
	return r.config.Filter.Apply(ctx, wanted)
}

// WantedTranslation is what the node called self does to packets, but for its bridge.
func WantedTranslation(nodes []*v1.Node, self string) Translation {
	var t Translation
	for _, node := range nodes {
		for _, cidr := range podCIDRs(node) {
			prefix, err := netip.ParsePrefix(cidr)
			if err != nil {
				continue // the API server does not admit such
			}
			t.Cluster = append(t.Cluster, prefix.Masked())
			if node.Name == self {
				t.Pods = append(t.Pods, prefix.Masked())
			}
		}
		for _, address := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(address.Address); err == nil && address.Type == v1.NodeInternalIP {
				t.Cluster = append(t.Cluster, netip.PrefixFrom(ip, ip.BitLen()))
			}
		}
	}
	return t
}

func internalIP(node *v1.Node, four bool) string {
	for _, address := range node.Status.Addresses {
		if address.Type != v1.NodeInternalIP {
			continue
		}
		if ip := net.ParseIP(address.Address); ip != nil && (ip.To4() != nil) == four {
			return ip.String()
		}
	}
	return ""
}

// apply makes the table hold just the wanted routes. It continues after a failure.
func apply(table Table, wanted []Route) error {
	present, err := table.List()
	if err != nil {
		return err
	}
	var failures []error
	destinations := map[string]bool{}
	for _, route := range wanted {
		destinations[route.Destination] = true
		if !slices.Contains(present, route) {
			if err := table.Set(route); err != nil {
				failures = append(failures, fmt.Errorf("route to %s via %s: %w", route.Destination, route.Via, err))
			}
		}
	}
	for _, route := range present {
		if !destinations[route.Destination] {
			failures = append(failures, table.Delete(route))
		}
	}
	return errors.Join(failures...)
}
