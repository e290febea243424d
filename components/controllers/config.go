// Package controllers is the controller manager: the loops that bring a cluster's state to the desired one.
// list.go is the table of contents.
package controllers

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	certificates "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/csr"
	"quintet.dev/quintet/components/controllers/nodeipam"
	"quintet.dev/quintet/components/controllers/nodelifecycle"
	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/diagnostics"
	"quintet.dev/quintet/internal/leader"
	"quintet.dev/quintet/internal/profiles"
)

// Config is what a controller manager is made from. DefaultConfig has upstream's defaults; the flags of the same
// names are documented at https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/.
type Config struct {
	// Client reaches the API server, instead of Kubeconfig.
	Client *rest.Config
	// Kubeconfig is the file with the API server's address and the manager's credentials.
	Kubeconfig   string
	Master       string  // URL of the API server, instead of the one in Kubeconfig
	KubeAPIQPS   float32 // requests per second of each controller; < 0: no limit
	KubeAPIBurst int
	// KubeAPIContentType is how built-in objects are encoded on the wire; "" is JSON.
	KubeAPIContentType string
	// MinResyncPeriod is the interval at which every object is processed without an event.
	MinResyncPeriod time.Duration

	// Controllers are the names to run: "*" is all, "-name" is not that one.
	Controllers []string
	// CommandLine is all flags with their values, for /flagz, which isn't there without.
	CommandLine func() map[string]string
	// FeatureGates has what differs from upstream's defaults; unswitched has those that can't.
	FeatureGates map[string]bool
	// UseServiceAccountCredentials lets each controller use a service account of its own.
	UseServiceAccountCredentials bool
	// LeaderElection lets one of several managers work.
	LeaderElection leader.Config
	// Clock is where the controllers take the time from; the machine's if nil.
	Clock clock.WithTicker

	// Access configures authentication and authorization of the serving endpoints.
	Access delegated.Options
	// BindAddress and SecurePort are where health and metrics are served; no port, no server.
	// Listener, if not nil, is used in their place, and is closed by Run.
	BindAddress string
	SecurePort  int
	Listener    net.Listener
	Serving     diagnostics.Serving
	Profiling   profiles.Options

	AllocateNodeCIDRs     bool
	ClusterCIDR           string // at most one range per address family, comma-separated
	ServiceClusterIPRange string
	NodeCIDRMaskSize      int // of the only address family; 0: the mask of that family
	NodeCIDRMaskSizeIPv4  int // 0: 24
	NodeCIDRMaskSizeIPv6  int // 0: 64

	NodeMonitorPeriod         time.Duration // between two evaluations of all heartbeats
	NodeMonitorGracePeriod    time.Duration // how long a node may be silent
	NodeStartupGracePeriod    time.Duration // how long a new node may be silent
	NodeEvictionRate          float64       // nodes per second
	SecondaryNodeEvictionRate float64       // the same in a zone that is partly lost
	LargeClusterSizeThreshold int           // nodes up to which a partly lost zone is not touched
	UnhealthyZoneThreshold    float64       // share of lost nodes that makes a zone partly lost
	TerminatedPodGCThreshold  int           // ended pods that may stay; 0: all

	RootCAFile string
	// ServiceAccountPrivateKeyFile signs the tokens kept in Secrets; without it those stay empty.
	ServiceAccountPrivateKeyFile string
	// LegacySATokenCleanUpPeriod is how long a generated token Secret is kept without use.
	LegacySATokenCleanUpPeriod time.Duration

	// ClusterSigningCertFile and -KeyFile sign for all signers that have no files of their own.
	ClusterSigningCertFile, ClusterSigningKeyFile                               string
	ClusterSigningKubeletServingCertFile, ClusterSigningKubeletServingKeyFile   string
	ClusterSigningKubeletClientCertFile, ClusterSigningKubeletClientKeyFile     string
	ClusterSigningAPIServerClientCertFile, ClusterSigningAPIServerClientKeyFile string
	ClusterSigningLegacyUnknownCertFile, ClusterSigningLegacyUnknownKeyFile     string
	// ClusterSigningDuration is what certificates last at most.
	ClusterSigningDuration time.Duration

	EnableGarbageCollector bool
	MaxEndpointsPerSlice   int
	// MirroringMaxEndpointsPerSubset is how many addresses of one subset of Endpoints are mirrored.
	MirroringMaxEndpointsPerSubset int
	// ResourceQuotaSyncPeriod is the interval at which the usage of all quotas is recalculated.
	ResourceQuotaSyncPeriod time.Duration
	// NamespaceSyncPeriod is the interval at which namespaces that are being deleted are looked at without an event.
	NamespaceSyncPeriod time.Duration
	// *UpdatesBatchPeriod are how long changes of pods (or Endpoints) are gathered before they are written.
	EndpointUpdatesBatchPeriod, EndpointSliceUpdatesBatchPeriod, MirroringUpdatesBatchPeriod time.Duration
	// ControllerStartInterval is the pause between the starts of two controllers.
	ControllerStartInterval time.Duration
	// ControllerShutdownTimeout is how long controllers may take to end.
	ControllerShutdownTimeout time.Duration

	// Concurrent*Syncs are how many objects of a kind are reconciled at once.
	ConcurrentDeploymentSyncs          int
	ConcurrentReplicaSetSyncs          int
	ConcurrentRCSyncs                  int
	ConcurrentNamespaceSyncs           int
	ConcurrentGCSyncs                  int
	ConcurrentEndpointSyncs            int
	ConcurrentServiceEndpointSyncs     int
	ConcurrentDaemonSetSyncs           int
	ConcurrentStatefulSetSyncs         int
	ConcurrentTTLSyncs                 int
	ConcurrentJobSyncs                 int
	ConcurrentSATokenSyncs             int
	ConcurrentCronJobSyncs             int
	ConcurrentResourceQuotaSyncs       int
	MirroringConcurrentSyncs           int
	ConcurrentPolicySyncs              int
	ConcurrentDeviceTaintEvictionSyncs int

	// Migration moves controllers to the lease of another manager.
	Migration LeaderMigration
	// Cloud is what concerns cloud providers.
	Cloud CloudConfig

	Storage    StorageConfig
	Autoscaler AutoscalerConfig
}

// DefaultConfig returns upstream's defaults.
func DefaultConfig() Config {
	return Config{
		KubeAPIQPS:         20,
		KubeAPIBurst:       30,
		KubeAPIContentType: runtime.ContentTypeProtobuf,
		MinResyncPeriod:    12 * time.Hour,
		Controllers:        []string{"*"},
		Access:             delegated.Default(),
		BindAddress:        "0.0.0.0",
		SecurePort:         10257,
		Profiling:          profiles.Options{On: true},
		LeaderElection:     leader.Default("kube-controller-manager"),

		NodeMonitorPeriod:         5 * time.Second,
		NodeMonitorGracePeriod:    50 * time.Second,
		NodeStartupGracePeriod:    time.Minute,
		NodeEvictionRate:          0.1,
		SecondaryNodeEvictionRate: 0.01,
		LargeClusterSizeThreshold: 50,
		UnhealthyZoneThreshold:    0.55,
		TerminatedPodGCThreshold:  12500,

		ClusterSigningDuration:         365 * 24 * time.Hour,
		LegacySATokenCleanUpPeriod:     365 * 24 * time.Hour,
		EnableGarbageCollector:         true,
		MaxEndpointsPerSlice:           100,
		MirroringMaxEndpointsPerSubset: 1000,
		ResourceQuotaSyncPeriod:        5 * time.Minute,
		NamespaceSyncPeriod:            5 * time.Minute,
		ControllerShutdownTimeout:      10 * time.Second,

		ConcurrentDeploymentSyncs:          5,
		ConcurrentReplicaSetSyncs:          5,
		ConcurrentRCSyncs:                  5,
		ConcurrentNamespaceSyncs:           10,
		ConcurrentGCSyncs:                  20,
		ConcurrentEndpointSyncs:            5,
		ConcurrentServiceEndpointSyncs:     5,
		ConcurrentDaemonSetSyncs:           2,
		ConcurrentStatefulSetSyncs:         5,
		ConcurrentTTLSyncs:                 5,
		ConcurrentJobSyncs:                 5,
		ConcurrentSATokenSyncs:             5,
		ConcurrentCronJobSyncs:             5,
		ConcurrentResourceQuotaSyncs:       5,
		MirroringConcurrentSyncs:           5,
		ConcurrentPolicySyncs:              5,
		ConcurrentDeviceTaintEvictionSyncs: 8,

		Cloud:      defaultCloud(),
		Storage:    defaultStorage(),
		Autoscaler: defaultAutoscaler(),
	}
}

// validate returns all errors, not only the first.
func (c *Config) validate() error {
	var errs []error
	if c.Client == nil && c.Kubeconfig == "" && c.Master == "" {
		errs = append(errs, errors.New("--kubeconfig is required: it names the API server and the manager's identity"))
	}
	errs = append(errs, c.Access.Validate(), c.Serving.Validate())
	if _, err := c.gates(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.enabled(); err != nil {
		errs = append(errs, err)
	}
	if t := c.KubeAPIContentType; t != "" && t != runtime.ContentTypeProtobuf && t != runtime.ContentTypeJSON {
		errs = append(errs, fmt.Errorf("--kube-api-content-type %q: use %s or %s", t, runtime.ContentTypeProtobuf,
			runtime.ContentTypeJSON))
	}
	if c.SecurePort < 0 || c.SecurePort > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port %d: use a port number, or 0 to serve nothing", c.SecurePort))
	}
	if c.BindAddress != "" && net.ParseIP(c.BindAddress) == nil {
		errs = append(errs, fmt.Errorf("--bind-address %q is not an IP address", c.BindAddress))
	}
	if _, err := c.nodeCIDRs(); err != nil {
		errs = append(errs, err)
	}
	if c.NodeMonitorPeriod <= 0 || c.NodeMonitorGracePeriod <= c.NodeMonitorPeriod {
		errs = append(errs, fmt.Errorf("--node-monitor-grace-period %v must be longer than --node-monitor-period %v",
			c.NodeMonitorGracePeriod, c.NodeMonitorPeriod))
	}
	if c.LegacySATokenCleanUpPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--legacy-service-account-token-clean-up-period %v must be longer than nothing",
			c.LegacySATokenCleanUpPeriod))
	}
	if c.MaxEndpointsPerSlice < 1 || c.MaxEndpointsPerSlice > 1000 {
		errs = append(errs, fmt.Errorf("--max-endpoints-per-slice %d: use 1 to 1000", c.MaxEndpointsPerSlice))
	}
	if c.MirroringMaxEndpointsPerSubset < 1 || c.MirroringMaxEndpointsPerSubset > 1000 {
		errs = append(errs, fmt.Errorf("--mirroring-max-endpoints-per-subset %d: use 1 to 1000",
			c.MirroringMaxEndpointsPerSubset))
	}
	if c.ResourceQuotaSyncPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--resource-quota-sync-period %v must be longer than nothing",
			c.ResourceQuotaSyncPeriod))
	}
	if _, err := c.authorities(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.LeaderElection.Validate(), c.Migration.validate(&c.LeaderElection), c.Cloud.validate(),
		c.validatePeriods(), c.Storage.validate(), c.Autoscaler.validate())
	return errors.Join(errs...)
}

// validatePeriods checks how often and how many at once, and names the flags.
func (c *Config) validatePeriods() error {
	var errs []error
	if c.NamespaceSyncPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--namespace-sync-period %v must be longer than nothing", c.NamespaceSyncPeriod))
	}
	for flag, period := range map[string]time.Duration{
		"endpoint-updates-batch-period":                c.EndpointUpdatesBatchPeriod,
		"endpointslice-updates-batch-period":           c.EndpointSliceUpdatesBatchPeriod,
		"mirroring-endpointslice-updates-batch-period": c.MirroringUpdatesBatchPeriod,
		"controller-start-interval":                    c.ControllerStartInterval,
		"controller-shutdown-timeout":                  c.ControllerShutdownTimeout,
	} {
		if period < 0 {
			errs = append(errs, fmt.Errorf("--%s %v must not be negative", flag, period))
		}
	}
	for flag, count := range map[string]int{
		"concurrent-cron-job-syncs": c.ConcurrentCronJobSyncs, "concurrent-daemonset-syncs": c.ConcurrentDaemonSetSyncs,
		"concurrent-job-syncs": c.ConcurrentJobSyncs, "concurrent-statefulset-syncs": c.ConcurrentStatefulSetSyncs,
		"concurrent-ephemeralvolume-syncs":       c.Storage.ConcurrentEphemeralVolumeSyncs,
		"concurrent-resourceclaim-syncs":         c.Storage.ConcurrentResourceClaimSyncs,
		"concurrent-device-taint-eviction-syncs": c.ConcurrentDeviceTaintEvictionSyncs,
	} {
		if count <= 0 {
			errs = append(errs, fmt.Errorf("%s must be greater than 0, but got %d", flag, count))
		}
	}
	return errors.Join(errs...)
}

// authorities returns with which files each signer signs; a signer without files is none of this manager's.
func (c *Config) authorities() (map[string]csr.Authority, error) {
	found := map[string]csr.Authority{}
	for _, signer := range []struct{ name, flag, cert, key string }{
		{certificates.KubeletServingSignerName, "kubelet-serving", c.ClusterSigningKubeletServingCertFile,
			c.ClusterSigningKubeletServingKeyFile},
		{certificates.KubeAPIServerClientKubeletSignerName, "kubelet-client", c.ClusterSigningKubeletClientCertFile,
			c.ClusterSigningKubeletClientKeyFile},
		{certificates.KubeAPIServerClientSignerName, "kube-apiserver-client", c.ClusterSigningAPIServerClientCertFile,
			c.ClusterSigningAPIServerClientKeyFile},
		{csr.LegacyUnknownSignerName, "legacy-unknown", c.ClusterSigningLegacyUnknownCertFile,
			c.ClusterSigningLegacyUnknownKeyFile},
	} {
		own := signer.cert != "" || signer.key != ""
		if own && (c.ClusterSigningCertFile != "" || c.ClusterSigningKeyFile != "") {
			return nil,
				fmt.Errorf("--cluster-signing-cert-file and --cluster-signing-key-file can't be used together with "+
					"--cluster-signing-%s-*-file", signer.flag)
		}
		authority := csr.Authority{CertFile: signer.cert, KeyFile: signer.key}
		if !own {
			authority = csr.Authority{CertFile: c.ClusterSigningCertFile, KeyFile: c.ClusterSigningKeyFile}
		}
		if (authority.CertFile == "") != (authority.KeyFile == "") {
			return nil, fmt.Errorf("signer %s needs both files, of a certificate and of its key", signer.name)
		}
		if authority.CertFile != "" {
			found[signer.name] = authority
		}
	}
	return found, nil
}

func (c *Config) nodeLifecycle() nodelifecycle.Options {
	return nodelifecycle.Options{
		MonitorPeriod: c.NodeMonitorPeriod, MonitorGracePeriod: c.NodeMonitorGracePeriod,
		StartupGracePeriod: c.NodeStartupGracePeriod,
		EvictionRate:       c.NodeEvictionRate, SecondaryRate: c.SecondaryNodeEvictionRate,
		LargeCluster: c.LargeClusterSizeThreshold, UnhealthyZoneShare: c.UnhealthyZoneThreshold,
	}
}

// rest returns how the API server is reached; the result belongs to the caller.
func (c *Config) rest() (*rest.Config, error) {
	if c.Client != nil {
		return c.tune(rest.CopyConfig(c.Client)), nil
	}
	config, err := clientcmd.BuildConfigFromFlags(c.Master, c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return c.tune(config), nil
}

// tune sets how fast and in which encoding the API server is spoken to.
func (c *Config) tune(config *rest.Config) *rest.Config {
	config.QPS, config.Burst = c.KubeAPIQPS, c.KubeAPIBurst
	config.ContentType = c.KubeAPIContentType
	// Endpoints are deprecated and kept by a controller all the same: a line per write would drown the log.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	if config.ContentType == runtime.ContentTypeProtobuf {
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	return config
}

// nodeCIDRs reads the flags of node address management.
func (c *Config) nodeCIDRs() (nodeipam.Options, error) {
	o := nodeipam.Options{MaskIPv4: cmp.Or(c.NodeCIDRMaskSizeIPv4, 24), MaskIPv6: cmp.Or(c.NodeCIDRMaskSizeIPv6, 64)}
	if !c.AllocateNodeCIDRs {
		return o, nil
	}
	var err error
	if o.ClusterCIDRs, err = prefixes("cluster-cidr", c.ClusterCIDR); err != nil {
		return o, err
	}
	if o.ServiceCIDRs, err = prefixes("service-cluster-ip-range", c.ServiceClusterIPRange); err != nil {
		return o, err
	}
	switch {
	case len(o.ClusterCIDRs) == 0:
		return o, errors.New("--allocate-node-cidrs needs --cluster-cidr, the range to allocate from")
	case len(o.ClusterCIDRs) > 2, len(o.ClusterCIDRs) == 2 &&
		o.ClusterCIDRs[0].Addr().Is4() == o.ClusterCIDRs[1].Addr().Is4():
		return o, fmt.Errorf("--cluster-cidr %s: give one range, or one of each address family", c.ClusterCIDR)
	case len(o.ClusterCIDRs) == 2 && c.NodeCIDRMaskSize != 0:
		return o,
			errors.New("--node-cidr-mask-size can't be used with two address families: use --node-cidr-mask-size-ipv4 and -ipv6")
	case c.NodeCIDRMaskSize != 0 && (c.NodeCIDRMaskSizeIPv4 != 0 || c.NodeCIDRMaskSizeIPv6 != 0):
		return o, errors.New("--node-cidr-mask-size can't be used with --node-cidr-mask-size-ipv4 and -ipv6")
	case len(o.ClusterCIDRs) == 1 && c.NodeCIDRMaskSizeIPv4 != 0 && !o.ClusterCIDRs[0].Addr().Is4():
		return o, errors.New("--node-cidr-mask-size-ipv4 can't be used: --cluster-cidr has no IPv4 range")
	case len(o.ClusterCIDRs) == 1 && c.NodeCIDRMaskSizeIPv6 != 0 && o.ClusterCIDRs[0].Addr().Is4():
		return o, errors.New("--node-cidr-mask-size-ipv6 can't be used: --cluster-cidr has no IPv6 range")
	}
	if c.NodeCIDRMaskSize != 0 {
		o.MaskIPv4, o.MaskIPv6 = c.NodeCIDRMaskSize, c.NodeCIDRMaskSize
	}
	return o, nil
}

func prefixes(flag, text string) ([]netip.Prefix, error) {
	var found []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		found = append(found, prefix.Masked())
	}
	return found, nil
}

// read returns the content of the file that flag names; nil if it names none.
func read(flag, file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return data, nil
}
