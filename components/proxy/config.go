// Package proxy is kube-proxy: it makes the addresses of Services work on a node, through nftables
// (https://kubernetes.io/docs/reference/networking/virtual-ips/).
package proxy

import (
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/conntrack"
	"quintet.dev/quintet/internal/nftcheck"
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
	// ContentType is of requests to the API server; AcceptContentTypes are of its answers, "" for the former and
	// others.
	ContentType, AcceptContentTypes string
	// BindAddressHardFail makes an address that can't be bound end Run, instead of being tried again.
	BindAddressHardFail bool
	// FeatureGates are those that are set; see features.go for which can be.
	FeatureGates map[string]bool
	Conntrack    Conntrack
	Cleanup      bool
	// WriteConfigTo is the path that Run writes the configuration to, as a file for ConfigFile, and returns; "" for
	// none.
	WriteConfigTo string

	// healthzPort and metricsPort are of deprecated flags; "" where they are not given.
	healthzPort, metricsPort string
	// commandLine has the flags with their values; nil where there is no command line.
	commandLine func() map[string]string
	// logging holds the logging options of the file at loggingFile, which the flag --config has applied.
	logging     logsapi.LoggingConfiguration
	loggingFile string

	// Injected by tests, instead of a kubeconfig, the kernel and the system's clock.
	Client kubernetes.Interface
	Open   func(v1.IPFamily) (knftables.Interface, nftcheck.Kernel, error)
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
		ResyncPeriod: 15 * time.Minute, OOMScoreAdj: -999, QPS: 5, Burst: 10, ContentType: runtime.ContentTypeProtobuf,
		Conntrack: Conntrack{
			MaxPerCore: 32 * 1024, Min: 128 * 1024, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour,
		},
	}
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
