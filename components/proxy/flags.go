package proxy

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"quintet.dev/quintet/internal/zpages"
)

// AddFlags adds upstream's flags. Those of logging are the program's; where fs has them before, the file of --config
// sets them.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	c.commandLine = zpages.Flags(fs)
	fs.Var(&configFlag{config: c,
		flags: fs}, "config", "A KubeProxyConfiguration file. Where it is given, flags of the "+
		"same settings are ignored, but for --hostname-override and those of logging.")
	fs.StringVar(&c.WriteConfigTo, "write-config-to", c.WriteConfigTo,
		"Write the configuration to this file, as one for --config, and exit.")
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "How to reach the API server.")
	fs.StringVar(&c.Master, "master", c.Master, "The address of the API server, instead of that in the kubeconfig.")
	fs.StringVar(&c.HostnameOverride, "hostname-override", c.HostnameOverride,
		"Name of this node instead of the machine's host name.")
	fs.StringVar(&c.Mode, "proxy-mode", c.Mode, "How traffic is led: nftables.")
	fs.StringVar(&c.BindAddress, "bind-address", c.BindAddress,
		"The node's primary address, instead of that in the Node object; no socket is bound to it.")
	fs.StringVar(&c.HealthzAddress, "healthz-bind-address", c.HealthzAddress,
		"Address of /healthz and /livez; empty serves none.")
	fs.StringVar(&c.MetricsAddress, "metrics-bind-address", c.MetricsAddress, "Address of /metrics; empty serves none.")
	fs.BoolVar(&c.BindAddressHardFail, "bind-address-hard-fail", c.BindAddressHardFail,
		"Exit where an address to serve on can't be bound, instead of trying again.")
	fs.BoolVar(&c.Profiling, "profiling", c.Profiling, "Serve profiles at /debug/pprof/ of the metrics' address.")
	fs.Var(cliflag.NewMapStringBool(&c.FeatureGates), "feature-gates", "Features, name=true|false; "+
		strings.Join(switchable(), " and ")+" can be switched, others only be set to what they are.")
	fs.DurationVar(&c.ResyncPeriod, "config-sync-period", c.ResyncPeriod,
		"How often objects are read again without a cause.")
	fs.Int32Var(&c.OOMScoreAdj, "oom-score-adj", c.OOMScoreAdj, "oom_score_adj of the process, -1000 to 1000.")
	fs.Float32Var(&c.QPS, "kube-api-qps", c.QPS, "Requests per second to the API server.")
	fs.Int32Var(&c.Burst, "kube-api-burst", c.Burst, "Requests at once to the API server.")
	fs.StringVar(&c.ContentType, "kube-api-content-type", c.ContentType, "Content type of requests to the API server.")
	fs.BoolVar(&c.Cleanup, "cleanup", c.Cleanup, "Remove the rules of kube-proxy and exit.")
	c.addTrafficFlags(fs)
	c.Conntrack.addFlags(fs)
	addModeFlags(fs)
	addFixedFlags(fs)
	portFlag(fs, &c.healthzPort, "healthz-port", healthzPort)
	portFlag(fs, &c.metricsPort, "metrics-port", metricsPort)
}

// addTrafficFlags adds what rules depend on.
func (c *Config) addTrafficFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ClusterCIDR, "cluster-cidr", c.ClusterCIDR,
		"The range of pods, or one of each family, separated by a comma.")
	fs.StringVar(&c.DetectLocalMode, "detect-local-mode", c.DetectLocalMode,
		"How traffic of local pods is told: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.")
	fs.StringVar(&c.PodBridge, "pod-bridge-interface", c.PodBridge,
		"The interface of --detect-local-mode=BridgeInterface.")
	fs.StringVar(&c.PodPrefix, "pod-interface-name-prefix", c.PodPrefix,
		"The prefix of --detect-local-mode=InterfaceNamePrefix.")
	fs.StringSliceVar(&c.NodePorts, "nodeport-addresses", c.NodePorts, "CIDRs of the node's addresses that serve node "+
		"ports, or primary for those in the Node object, as without the flag.")
	fs.BoolVar(&c.MasqueradeAll, "masquerade-all", c.MasqueradeAll,
		"Give all traffic to cluster IPs the node's address.")
}

func (c *Conntrack) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&c.MaxPerCore, "conntrack-max-per-core", c.MaxPerCore,
		"Tracked connections per core; 0 leaves the limit as it is.")
	fs.Int32Var(&c.Min, "conntrack-min", c.Min, "The least limit of tracked connections.")
	fs.DurationVar(&c.TCPEstablished, "conntrack-tcp-timeout-established", c.TCPEstablished,
		"Timeout of idle TCP connections.")
	fs.DurationVar(&c.TCPCloseWait, "conntrack-tcp-timeout-close-wait", c.TCPCloseWait, "Timeout of TCP in CLOSE_WAIT.")
	fs.BoolVar(&c.TCPBeLiberal, "conntrack-tcp-be-liberal", c.TCPBeLiberal,
		"Take TCP packets outside the window as valid.")
	fs.DurationVar(&c.UDP, "conntrack-udp-timeout", c.UDP, "Timeout of UDP without replies.")
	fs.DurationVar(&c.UDPStream, "conntrack-udp-timeout-stream", c.UDPStream, "Timeout of UDP with replies.")
}

// configFlag is --config. A program sets its logging up after the flags are parsed and before the component starts, and
// only once: the file's logging options must be in the flags by then. Flags of logging that are given win over it.
type configFlag struct {
	config *Config
	flags  *pflag.FlagSet
}

// Type implements pflag.Value.
func (f *configFlag) Type() string { return "string" }

// String implements pflag.Value.
func (f *configFlag) String() string {
	if f.config == nil {
		return ""
	}
	return f.config.ConfigFile
}

// Set implements pflag.Value.
func (f *configFlag) Set(path string) error {
	f.config.ConfigFile = path
	if path == "" {
		return nil
	}
	file, err := readFile(path)
	if err != nil {
		return err
	}
	if err := f.setLogging(&file.Logging); err != nil {
		return err
	}
	f.config.loggingFile = path
	return nil
}

func (f *configFlag) setLogging(l *logsapi.LoggingConfiguration) error {
	for _, options := range []struct {
		field string
		of    logsapi.OutputRoutingOptions
	}{
		{"logging.options.text", l.Options.Text.OutputRoutingOptions},
		{"logging.options.json", l.Options.JSON.OutputRoutingOptions},
	} {
		if options.of.SplitStream || !options.of.InfoBufferSize.IsZero() {
			return fmt.Errorf("%s is not supported", options.field)
		}
	}
	var modules []string
	for _, item := range l.VModule {
		modules = append(modules, fmt.Sprintf("%s=%d", item.FilePattern, item.Verbosity))
	}
	values := []struct{ field, flag, value string }{
		{"format", "logging-format", l.Format}, {"vmodule", "vmodule", strings.Join(modules, ",")},
		{"verbosity", "v", ""}, {"flushFrequency", "log-flush-frequency", ""},
	}
	if l.Verbosity != 0 {
		values[2].value = fmt.Sprint(uint32(l.Verbosity))
	}
	if every := l.FlushFrequency.Duration.Duration; every != 0 {
		values[3].value = every.String()
	}
	for _, v := range values {
		if v.value == "" || f.flags.Changed(v.flag) {
			continue
		}
		if err := f.flags.Set(v.flag, v.value); err != nil {
			return fmt.Errorf("logging.%s: %w", v.field, err)
		}
	}
	return nil
}
