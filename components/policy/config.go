// Package policy enforces NetworkPolicies on a node, through nftables
// (https://kubernetes.io/docs/concepts/services-networking/network-policies/).
//
// One process per node enforces policies on the connections of its pods: egress of those that it has, and ingress to
// them. What the documentation leaves to implementations is decided so:
//   - A packet is matched after kube-proxy's translation of its destination, so by a Service's pod and that pod's port,
//     and before the node's address replaces its source.
//   - The node and its pods always reach each other, whichever address of the node they use; other nodes are matched
//     by their addresses. Pods in their node's network are never isolated, and no selector of peers selects them.
//   - A connection is matched when it begins. Those that are older than a policy go on, and so does a UDP exchange
//     whose packets follow closely, until the pod ends.
//   - Protocols without ports, such as ICMP, pass only rules without ports. ICMP errors of an allowed connection pass.
//   - A terminating pod is isolated until it ended.
//
// A pod is isolated before the API tells its address: as long as a policy selects such a pod of this node, connections
// of all addresses in the node's pod CIDRs that are not known yet are held. Open are these windows: on a machine that
// boots, until the first sync; the time in which a policy, or a change of labels, is on its way; a pod whose sandbox is
// recreated, until its new address is reported; and a pod that was deleted without a grace period and still runs.
//
// Frames between pods of one node are matched where they are routed, as node-routes has it, or bridge-nf-call-iptables.
// Rules stay in force when the process ends and while the API server is away.
package policy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/internal/kubeconfig"
	"quintet.dev/quintet/internal/nftcheck"
)

// Config of the enforcement on one node.
type Config struct {
	Kubeconfig       string
	HostnameOverride string // name of the Node object; "" is the machine's host name
	HealthzAddress   string // IP:port; "" serves nothing
	// MinSyncPeriod is the least time between two changes of the rules; what happens meanwhile becomes one.
	MinSyncPeriod time.Duration
	// CheckPeriod is how often the kernel is asked whether the rules are still there.
	CheckPeriod time.Duration
	// Cleanup has Run remove the rules and return; it needs no API server.
	Cleanup bool

	// Injected by tests, instead of a kubeconfig, the kernel and the system's clock.
	Client      kubernetes.Interface
	Open        func() (knftables.Interface, nftcheck.Kernel, error)
	Connections Connections
	Clock       clock.WithTicker
}

// Connections are those that the kernel tracks.
type Connections interface {
	// Delete removes all from and to the addresses, and returns how many they were.
	Delete(addrs map[netip.Addr]struct{}) (int, error)
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{HealthzAddress: "127.0.0.1:10260", MinSyncPeriod: 50 * time.Millisecond,
		CheckPeriod: 2 * time.Second}
}

// AddFlags adds the flags of the program.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "How to reach the API server.")
	fs.StringVar(&c.HostnameOverride, "hostname-override", c.HostnameOverride,
		"Name of this node instead of the machine's host name.")
	fs.StringVar(&c.HealthzAddress, "healthz-bind-address", c.HealthzAddress,
		"Address of /healthz and /metrics; empty serves none.")
	fs.DurationVar(&c.MinSyncPeriod, "min-sync-period", c.MinSyncPeriod,
		"The least time between two changes of the rules; 0 writes each change at once.")
	fs.DurationVar(&c.CheckPeriod, "check-period", c.CheckPeriod,
		"How often to look whether another program changed the rules.")
	fs.BoolVar(&c.Cleanup, "cleanup", c.Cleanup, "Remove the rules of NetworkPolicies and exit.")
}

// check names what can't be honoured.
func (c *Config) check() error {
	var errs []error
	if c.Client == nil && c.Kubeconfig == "" && !c.Cleanup {
		errs = append(errs, errors.New("--kubeconfig is required"))
	}
	host, _, err := net.SplitHostPort(c.HealthzAddress)
	if c.HealthzAddress != "" && (err != nil || net.ParseIP(host) == nil) {
		errs = append(errs, fmt.Errorf("--healthz-bind-address %q: use the form IP:port", c.HealthzAddress))
	}
	if c.MinSyncPeriod < 0 {
		errs = append(errs, fmt.Errorf("--min-sync-period %v: use a duration that is not negative", c.MinSyncPeriod))
	}
	if c.CheckPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--check-period %v: use a duration greater than 0", c.CheckPeriod))
	}
	return errors.Join(errs...)
}

// nodeName is the name of this node.
func (c *Config) nodeName() (string, error) {
	name := c.HostnameOverride
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("host name (or give --hostname-override): %w", err)
		}
	}
	if name = strings.ToLower(strings.TrimSpace(name)); name == "" {
		return "", errors.New("--hostname-override: the name is empty")
	}
	return name, nil
}

func newClient(file string) (kubernetes.Interface, error) {
	config, err := kubeconfig.Load(file, 20)
	if err != nil {
		return nil, err
	}
	config.Burst = 40
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}
