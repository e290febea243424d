// Package cloudprovider is the cloud of a cluster on one network: Services of type LoadBalancer get addresses of that
// network, and packets for them are routed to nodes. It must run on a machine of its own: one that is no node.
package cloudprovider

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/cloudprovider/forward"
	"quintet.dev/quintet/internal/kubeconfig"
)

// Config of a cloud provider.
type Config struct {
	Kubeconfig string
	// AddressPools are the prefixes that load balancers get their addresses of; each is within a network of Interface.
	AddressPools []string
	// Interface is on the link that clients and nodes share; "" is the one with the default route.
	Interface string
	// LoadBalancerClass is served in addition to Services without a class; "" is none.
	LoadBalancerClass string
	// HealthzAddress serves /healthz and /metrics, as IP:port; "" serves nothing.
	HealthzAddress string
	// KubeProxyPort is the port of the health check of each node's kube-proxy.
	KubeProxyPort uint16
	// CheckPeriod is how often the health of a node is checked, CheckTimeout how long an answer may take.
	CheckPeriod, CheckTimeout time.Duration
	// ApproveKubeletServing has the provider approve the serving certificates of kubelets, for what is their node's.
	ApproveKubeletServing bool
	// Resync is how often the kernel's routes are compared without a cause.
	Resync time.Duration

	// Injected by tests, instead of a kubeconfig, the kernel with the machine's network, and the system's clock.
	Client  kubernetes.Interface
	Kernel  forward.Kernel
	Network Network
	Clock   clock.WithTicker
}

// Network is the link that clients and nodes share.
type Network interface {
	// Contains is an error if a pool is not within the network.
	Contains(netip.Prefix) error
	// Reserved tells whether an address can't be a load balancer's.
	Reserved(netip.Addr) bool
	// OnLink tells whether an address is reached without a router.
	OnLink(netip.Addr) bool
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{
		HealthzAddress: "127.0.0.1:10262", KubeProxyPort: 10256, CheckPeriod: 500 * time.Millisecond,
		CheckTimeout: 500 * time.Millisecond, Resync: 30 * time.Second,
	}
}

// AddFlags adds the flags of the program.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "How to reach the API server.")
	fs.StringSliceVar(&c.AddressPools, "address-pool", c.AddressPools,
		"Prefix of addresses for load balancers, such as 10.213.0.192/26; may be repeated.")
	fs.StringVar(&c.Interface, "interface", c.Interface,
		"Interface on the link that clients and nodes share. By default, the one with the default route, or else eth0.")
	fs.StringVar(&c.LoadBalancerClass, "load-balancer-class", c.LoadBalancerClass,
		"Class of Services to serve beside those without one.")
	fs.StringVar(&c.HealthzAddress, "healthz-bind-address", c.HealthzAddress,
		"Address of /healthz and /metrics; empty serves none.")
	fs.Uint16Var(&c.KubeProxyPort, "kube-proxy-healthz-port", c.KubeProxyPort,
		"Port of the health check of each node's kube-proxy.")
	fs.BoolVar(&c.ApproveKubeletServing, "approve-kubelet-serving", c.ApproveKubeletServing,
		"Approve requests of kubelets for serving certificates whose names and addresses are the node's.")
	fs.DurationVar(&c.CheckPeriod, "check-period", c.CheckPeriod, "How often the health of each node is checked.")
	fs.DurationVar(&c.CheckTimeout, "check-timeout", c.CheckTimeout,
		"How long a node may take to answer a health check.")
	fs.DurationVar(&c.Resync, "sync-period", c.Resync, "How often the kernel's routes are compared without a cause.")
}

func (c *Config) pools() ([]netip.Prefix, error) {
	if len(c.AddressPools) == 0 {
		return nil, errors.New("--address-pool is required")
	}
	var pools []netip.Prefix
	for _, text := range c.AddressPools {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--address-pool %q: %w", text, err)
		}
		pools = append(pools, prefix)
	}
	return pools, nil
}

func (c *Config) validate() error {
	for name, value := range map[string]time.Duration{
		"check-period": c.CheckPeriod, "check-timeout": c.CheckTimeout, "sync-period": c.Resync,
	} {
		if value <= 0 {
			return fmt.Errorf("--%s %v: use a duration greater than 0", name, value)
		}
	}
	host, _, err := net.SplitHostPort(c.HealthzAddress)
	if c.HealthzAddress != "" && (err != nil || net.ParseIP(host) == nil) {
		return fmt.Errorf("--healthz-bind-address %q: use the form IP:port", c.HealthzAddress)
	}
	if c.KubeProxyPort == 0 {
		return errors.New("--kube-proxy-healthz-port 0: use the port that kube-proxy's --healthz-bind-address has")
	}
	if c.LoadBalancerClass == "" {
		return nil
	}
	if messages := validation.IsQualifiedName(c.LoadBalancerClass); len(messages) > 0 {
		return fmt.Errorf("--load-balancer-class %q: %s", c.LoadBalancerClass, messages[0])
	}
	return nil
}

func (c *Config) client() (kubernetes.Interface, error) {
	if c.Client != nil {
		return c.Client, nil
	}
	if c.Kubeconfig == "" {
		return nil, errors.New("--kubeconfig is required")
	}
	config, err := kubeconfig.Load(c.Kubeconfig, 20)
	if err != nil {
		return nil, err
	}
	config = kubeconfig.AddUserAgent(config, "cloud-provider", "cloud-provider")
	config.Burst = 40
	config.ContentConfig = rest.ContentConfig{
		ContentType:        runtime.ContentTypeProtobuf,
		AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
	}
	return kubernetes.NewForConfig(config)
}
