// Package proxy is kube-proxy: it makes the addresses of Services work on a node, through nftables
// (https://kubernetes.io/docs/reference/networking/virtual-ips/).
package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/conntrack"
)

// Config of kube-proxy.
type Config struct {
	// ConfigFile is a KubeProxyConfiguration; where one is given, it decides and not the flags, but for
	// HostnameOverride, as upstream has it.
	ConfigFile       string
	Kubeconfig       string
	Master           string
	HostnameOverride string
	Mode             string
	BindAddress      string
	HealthzAddress   string // host:port; "" serves nothing
	MetricsAddress   string // host:port; "" serves nothing
	Profiling        bool
	ClusterCIDR      string // of pods; two of different families are separated by a comma
	DetectLocalMode  string
	PodBridge        string
	PodPrefix        string
	NodePorts        []string // CIDRs of the addresses that serve node ports, or "primary"
	MasqueradeBit    int32
	MasqueradeAll    bool
	MinSyncPeriod    time.Duration
	SyncPeriod       time.Duration
	ResyncPeriod     time.Duration
	OOMScoreAdj      int32
	QPS              float32
	Burst            int32
	Conntrack        Conntrack
	Cleanup          bool

	// Injected by tests, instead of a kubeconfig, the kernel and the system's clock.
	Client kubernetes.Interface
	Open   func(v1.IPFamily) (knftables.Interface, error)
	Flows  conntrack.Kernel
	Clock  clock.WithTicker
}

// Conntrack are limits of the kernel's connection tracking; 0 leaves what there is.
type Conntrack struct {
	MaxPerCore, Min              int32
	TCPEstablished, TCPCloseWait time.Duration
	UDP, UDPStream               time.Duration
	TCPBeLiberal                 bool
}

// NewConfig returns upstream's defaults, but for the mode, of which there is one.
func NewConfig() *Config {
	return &Config{
		Mode: "nftables", BindAddress: "0.0.0.0", HealthzAddress: "0.0.0.0:10256", MetricsAddress: "127.0.0.1:10249",
		DetectLocalMode: "ClusterCIDR", MasqueradeBit: 14, MinSyncPeriod: time.Second, SyncPeriod: 30 * time.Second,
		ResyncPeriod: 15 * time.Minute, OOMScoreAdj: -999, QPS: 5, Burst: 10,
		Conntrack: Conntrack{
			MaxPerCore: 32 * 1024, Min: 128 * 1024, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour,
		},
	}
}

// AddFlags adds upstream's flags.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ConfigFile, "config", c.ConfigFile, "A KubeProxyConfiguration file. Where it is given, flags of the same "+
		"settings are ignored, but for --hostname-override.")
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "How to reach the API server.")
	fs.StringVar(&c.Master, "master", c.Master, "The address of the API server, instead of that in the kubeconfig.")
	fs.StringVar(&c.HostnameOverride, "hostname-override", c.HostnameOverride,
		"Name of this node instead of the machine's host name.")
	fs.StringVar(&c.Mode, "proxy-mode", c.Mode, "How traffic is led: nftables.")
	fs.StringVar(&c.BindAddress, "bind-address", c.BindAddress, "The node's address where the API does not tell it.")
	fs.StringVar(&c.HealthzAddress, "healthz-bind-address", c.HealthzAddress, "Address of /healthz and /livez; empty serves none.")
	fs.StringVar(&c.MetricsAddress, "metrics-bind-address", c.MetricsAddress, "Address of /metrics; empty serves none.")
	fs.BoolVar(&c.Profiling, "profiling", c.Profiling, "Serve profiles at /debug/pprof/ of the metrics' address.")
	fs.StringVar(&c.ClusterCIDR, "cluster-cidr", c.ClusterCIDR, "The range of pods, or one of each family, separated by a comma.")
	fs.StringVar(&c.DetectLocalMode, "detect-local-mode", c.DetectLocalMode,
		"How traffic of local pods is told: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.")
	fs.StringVar(&c.PodBridge, "pod-bridge-interface", c.PodBridge, "The interface of --detect-local-mode=BridgeInterface.")
	fs.StringVar(&c.PodPrefix, "pod-interface-name-prefix", c.PodPrefix,
		"The prefix of --detect-local-mode=InterfaceNamePrefix.")
	fs.StringSliceVar(&c.NodePorts, "nodeport-addresses", c.NodePorts,
		"CIDRs of the node's addresses that serve node ports, or primary for those in the Node object, as without the flag.")
	fs.BoolVar(&c.MasqueradeAll, "masquerade-all", c.MasqueradeAll, "Give all traffic to cluster IPs the node's address.")
	fs.DurationVar(&c.ResyncPeriod, "config-sync-period", c.ResyncPeriod, "How often objects are read again without a cause.")
	fs.Int32Var(&c.OOMScoreAdj, "oom-score-adj", c.OOMScoreAdj, "oom_score_adj of the process, -1000 to 1000.")
	fs.Float32Var(&c.QPS, "kube-api-qps", c.QPS, "Requests per second to the API server.")
	fs.Int32Var(&c.Burst, "kube-api-burst", c.Burst, "Requests at once to the API server.")
	fs.BoolVar(&c.Cleanup, "cleanup", c.Cleanup, "Remove the rules of kube-proxy and exit.")
	t := &c.Conntrack
	fs.Int32Var(&t.MaxPerCore, "conntrack-max-per-core", t.MaxPerCore, "Tracked connections per core; 0 leaves the limit as it is.")
	fs.Int32Var(&t.Min, "conntrack-min", t.Min, "The least limit of tracked connections.")
	fs.DurationVar(&t.TCPEstablished, "conntrack-tcp-timeout-established", t.TCPEstablished, "Timeout of idle TCP connections.")
	fs.DurationVar(&t.TCPCloseWait, "conntrack-tcp-timeout-close-wait", t.TCPCloseWait, "Timeout of TCP in CLOSE_WAIT.")
	fs.BoolVar(&t.TCPBeLiberal, "conntrack-tcp-be-liberal", t.TCPBeLiberal, "Take TCP packets outside the window as valid.")
	fs.DurationVar(&t.UDP, "conntrack-udp-timeout", t.UDP, "Timeout of UDP without replies.")
	fs.DurationVar(&t.UDPStream, "conntrack-udp-timeout-stream", t.UDPStream, "Timeout of UDP with replies.")
}

// check names what can't be honoured.
func (c *Config) check() error {
	var errs []error
	bad := func(what string, format string, args ...any) {
		errs = append(errs, fmt.Errorf(what+": "+format, args...))
	}
	if c.Mode != "" && c.Mode != "nftables" {
		bad("mode", "%q is not supported; this kube-proxy has nftables alone", c.Mode)
	}
	if net.ParseIP(c.BindAddress) == nil {
		bad("bindAddress", "%q is no IP address", c.BindAddress)
	}
	for what, address := range map[string]string{"healthzBindAddress": c.HealthzAddress, "metricsBindAddress": c.MetricsAddress} {
		if host, _, err := net.SplitHostPort(address); address != "" && (err != nil || net.ParseIP(host) == nil) {
			bad(what, "%q is not of the form IP:port", address)
		}
	}
	if c.MasqueradeBit < 0 || c.MasqueradeBit > 31 {
		bad("nftables.masqueradeBit", "%d is not between 0 and 31", c.MasqueradeBit)
	}
	if c.SyncPeriod <= 0 {
		bad("nftables.syncPeriod", "%v is not greater than 0", c.SyncPeriod)
	}
	if c.MinSyncPeriod < 0 || c.MinSyncPeriod > c.SyncPeriod {
		bad("nftables.minSyncPeriod", "%v is not between 0 and syncPeriod, %v", c.MinSyncPeriod, c.SyncPeriod)
	}
	if c.ResyncPeriod <= 0 {
		bad("configSyncPeriod", "%v is not greater than 0", c.ResyncPeriod)
	}
	if c.OOMScoreAdj < -1000 || c.OOMScoreAdj > 1000 {
		bad("oomScoreAdj", "%d is not between -1000 and 1000", c.OOMScoreAdj)
	}
	if c.Conntrack.MaxPerCore < 0 || c.Conntrack.Min < 0 {
		bad("conntrack", "maxPerCore %d and min %d may not be negative", c.Conntrack.MaxPerCore, c.Conntrack.Min)
	}
	if _, _, err := localTraffic(c, v1.IPv4Protocol, nil); err != nil {
		errs = append(errs, err)
	}
	for _, text := range c.NodePorts {
		if _, err := netip.ParsePrefix(text); err != nil && (text != "primary" || len(c.NodePorts) > 1) {
			bad("nodePortAddresses", "%q is no CIDR, nor \"primary\" alone", text)
		}
	}
	return errors.Join(errs...)
}

// nodePortRanges are the ranges of addresses that serve node ports; none stands for the node's own.
func (c *Config) nodePortRanges() []netip.Prefix {
	var ranges []netip.Prefix
	for _, text := range c.NodePorts {
		if prefix, err := netip.ParsePrefix(text); err == nil { // check has seen to it
			ranges = append(ranges, prefix)
		}
	}
	return ranges
}
