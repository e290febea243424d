package controllers

import (
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"quintet.dev/quintet/internal/zpages"
)

// AddFlags adds upstream's flags; what c holds is their default.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	c.CommandLine = zpages.Flags(fs)
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "file that names the API server and the manager's identity")
	fs.StringVar(&c.Master, "master", c.Master, "URL of the API server, instead of the one in --kubeconfig")
	fs.Float32Var(&c.KubeAPIQPS, "kube-api-qps", c.KubeAPIQPS,
		"requests per second of each controller; negative: no limit")
	fs.IntVar(&c.KubeAPIBurst, "kube-api-burst", c.KubeAPIBurst, "requests each controller may send at once")
	fs.StringVar(&c.KubeAPIContentType, "kube-api-content-type", c.KubeAPIContentType,
		"encoding of built-in objects on the wire: application/vnd.kubernetes.protobuf or application/json")
	fs.DurationVar(&c.MinResyncPeriod, "min-resync-period", c.MinResyncPeriod,
		"how often every object is looked at again without an event")

	fs.StringSliceVar(&c.Controllers, "controllers", c.Controllers,
		"controllers to run: '*' is all but "+signerName+" and "+cleanerName+
			", 'name' is that one, '-name' is not that one; all: "+names())
	fs.Var(cliflag.NewMapStringBool(&c.FeatureGates), "feature-gates",
		"features, name=true|false; those that change a controller: "+strings.Join(switchable(), ", "))
	fs.BoolVar(&c.UseServiceAccountCredentials, "use-service-account-credentials", c.UseServiceAccountCredentials,
		"let each controller speak as a service account of its own")

	c.LeaderElection.AddFlags(fs, "kube-controller-manager")

	c.Serving.AddFlags(fs)
	c.Serving.Metrics.AddFlags(fs)
	c.Profiling.AddFlags(fs)
	c.Cloud.AddFlags(fs)
	c.Migration.AddFlags(fs)
	c.Access.AddFlags(fs)
	fs.StringVar(&c.BindAddress, "bind-address", c.BindAddress, "IP address to serve health and metrics on")
	fs.IntVar(&c.SecurePort, "secure-port", c.SecurePort, "port to serve health and metrics on; 0 serves nothing")

	fs.BoolVar(&c.AllocateNodeCIDRs, "allocate-node-cidrs", c.AllocateNodeCIDRs,
		"give each node a range of pod addresses")
	fs.StringVar(&c.ClusterCIDR, "cluster-cidr", c.ClusterCIDR,
		"range of pod addresses, or one of each family, comma-separated")
	fs.StringVar(&c.ServiceClusterIPRange, "service-cluster-ip-range", c.ServiceClusterIPRange,
		"range of service addresses, kept free of pods")
	fs.IntVar(&c.NodeCIDRMaskSize, "node-cidr-mask-size", c.NodeCIDRMaskSize,
		"prefix length of a node's range, with one address family")
	fs.IntVar(&c.NodeCIDRMaskSizeIPv4, "node-cidr-mask-size-ipv4", c.NodeCIDRMaskSizeIPv4,
		"prefix length of a node's IPv4 range; 24 unless it is set")
	fs.IntVar(&c.NodeCIDRMaskSizeIPv6, "node-cidr-mask-size-ipv6", c.NodeCIDRMaskSizeIPv6,
		"prefix length of a node's IPv6 range; 64 unless it is set")

	fs.DurationVar(&c.NodeMonitorPeriod, "node-monitor-period", c.NodeMonitorPeriod,
		"time between two looks at the heartbeats of all nodes")
	fs.DurationVar(&c.NodeMonitorGracePeriod, "node-monitor-grace-period", c.NodeMonitorGracePeriod,
		"how long a node may be silent before it counts as lost")
	fs.DurationVar(&c.NodeStartupGracePeriod, "node-startup-grace-period", c.NodeStartupGracePeriod,
		"how long a new node may be silent before it counts as lost")
	fs.Float64Var(&c.NodeEvictionRate, "node-eviction-rate", c.NodeEvictionRate,
		"lost nodes per second whose pods are evicted")
	fs.Float64Var(&c.SecondaryNodeEvictionRate, "secondary-node-eviction-rate", c.SecondaryNodeEvictionRate,
		"the same in a zone that is partly lost; 0 in a small cluster")
	fs.IntVar(&c.LargeClusterSizeThreshold, "large-cluster-size-threshold", c.LargeClusterSizeThreshold,
		"nodes up to which a zone is a small one")
	fs.Float64Var(&c.UnhealthyZoneThreshold, "unhealthy-zone-threshold", c.UnhealthyZoneThreshold,
		"share of lost nodes (at least 3) that makes a zone partly lost")
	fs.IntVar(&c.TerminatedPodGCThreshold, "terminated-pod-gc-threshold", c.TerminatedPodGCThreshold,
		"ended pods that may stay; 0 keeps all")

	fs.StringVar(&c.RootCAFile, "root-ca-file", c.RootCAFile,
		"certificate authority to publish in every namespace; the one of the kubeconfig if empty")
	fs.StringVar(&c.ServiceAccountPrivateKeyFile, "service-account-private-key-file", c.ServiceAccountPrivateKeyFile,
		"key that signs the service account tokens kept in Secrets; without it those stay empty")
	fs.DurationVar(&c.LegacySATokenCleanUpPeriod, "legacy-service-account-token-clean-up-period",
		c.LegacySATokenCleanUpPeriod, "how long a generated token Secret is kept without use")

	fs.StringVar(&c.ClusterSigningCertFile, "cluster-signing-cert-file", c.ClusterSigningCertFile,
		"certificate of the authority that signs requests")
	fs.StringVar(&c.ClusterSigningKeyFile, "cluster-signing-key-file", c.ClusterSigningKeyFile,
		"key of the authority that signs requests")
	for _, signer := range []struct {
		name      string
		cert, key *string
	}{
		{"kubelet-serving", &c.ClusterSigningKubeletServingCertFile, &c.ClusterSigningKubeletServingKeyFile},
		{"kubelet-client", &c.ClusterSigningKubeletClientCertFile, &c.ClusterSigningKubeletClientKeyFile},
		{"kube-apiserver-client", &c.ClusterSigningAPIServerClientCertFile, &c.ClusterSigningAPIServerClientKeyFile},
		{"legacy-unknown", &c.ClusterSigningLegacyUnknownCertFile, &c.ClusterSigningLegacyUnknownKeyFile},
	} {
		fs.StringVar(signer.cert, "cluster-signing-"+signer.name+"-cert-file", *signer.cert,
			"certificate that signs requests of signer "+signer.name)
		fs.StringVar(signer.key, "cluster-signing-"+signer.name+"-key-file", *signer.key,
			"key that signs requests of signer "+signer.name)
	}
	fs.DurationVar(&c.ClusterSigningDuration, "cluster-signing-duration", c.ClusterSigningDuration,
		"what signed certificates last at most")

	fs.BoolVar(&c.EnableGarbageCollector, "enable-garbage-collector", c.EnableGarbageCollector,
		"collect objects whose owners are gone; must be as with the API server")
	fs.IntVar(&c.MaxEndpointsPerSlice, "max-endpoints-per-slice", c.MaxEndpointsPerSlice, "endpoints in one slice")
	fs.IntVar(&c.MirroringMaxEndpointsPerSubset, "mirroring-max-endpoints-per-subset", c.MirroringMaxEndpointsPerSubset,
		"addresses of one subset of Endpoints that are mirrored")
	fs.DurationVar(&c.ResourceQuotaSyncPeriod, "resource-quota-sync-period", c.ResourceQuotaSyncPeriod,
		"how often the use of all quotas is counted again")
	c.addPeriodFlags(fs)
	c.addConcurrencyFlags(fs)
	c.Storage.AddFlags(fs)
	c.Autoscaler.AddFlags(fs)
}

// addPeriodFlags adds how often something is done, and how long it may take.
func (c *Config) addPeriodFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.NamespaceSyncPeriod, "namespace-sync-period", c.NamespaceSyncPeriod,
		"how often namespaces that are being deleted are looked at without an event")
	fs.DurationVar(&c.EndpointUpdatesBatchPeriod, "endpoint-updates-batch-period", c.EndpointUpdatesBatchPeriod,
		"how long changes of pods are gathered before Endpoints are written")
	fs.DurationVar(&c.EndpointSliceUpdatesBatchPeriod, "endpointslice-updates-batch-period",
		c.EndpointSliceUpdatesBatchPeriod, "how long changes of pods are gathered before EndpointSlices are written")
	fs.DurationVar(&c.MirroringUpdatesBatchPeriod, "mirroring-endpointslice-updates-batch-period",
		c.MirroringUpdatesBatchPeriod, "how long changes of Endpoints are gathered before they are mirrored")
	fs.DurationVar(&c.ControllerStartInterval, "controller-start-interval", c.ControllerStartInterval,
		"pause between the starts of two controllers")
	fs.DurationVar(&c.ControllerShutdownTimeout, "controller-shutdown-timeout", c.ControllerShutdownTimeout,
		"how long controllers may take to end before the program does without them")
}

// addConcurrencyFlags adds how many objects of a kind are reconciled at once.
func (c *Config) addConcurrencyFlags(fs *pflag.FlagSet) {
	fs.IntVar(&c.ConcurrentSATokenSyncs, "concurrent-serviceaccount-token-syncs", c.ConcurrentSATokenSyncs,
		"token Secrets filled at once")
	fs.IntVar(&c.ConcurrentDeviceTaintEvictionSyncs, "concurrent-device-taint-eviction-syncs",
		c.ConcurrentDeviceTaintEvictionSyncs, "pods evicted from tainted devices at once")
	fs.IntVar(&c.ConcurrentGCSyncs, "concurrent-gc-syncs", c.ConcurrentGCSyncs,
		"objects looked at at once by the garbage collector")
	fs.IntVar(&c.ConcurrentDaemonSetSyncs, "concurrent-daemonset-syncs", c.ConcurrentDaemonSetSyncs,
		"daemon sets reconciled at once")
	fs.IntVar(&c.ConcurrentStatefulSetSyncs, "concurrent-statefulset-syncs", c.ConcurrentStatefulSetSyncs,
		"stateful sets reconciled at once")
	fs.IntVar(&c.ConcurrentTTLSyncs, "concurrent-ttl-after-finished-syncs", c.ConcurrentTTLSyncs,
		"finished jobs deleted at once")
	fs.IntVar(&c.ConcurrentJobSyncs, "concurrent-job-syncs", c.ConcurrentJobSyncs, "jobs reconciled at once")
	fs.IntVar(&c.ConcurrentCronJobSyncs, "concurrent-cron-job-syncs", c.ConcurrentCronJobSyncs,
		"cron jobs reconciled at once")
	fs.IntVar(&c.ConcurrentResourceQuotaSyncs, "concurrent-resource-quota-syncs", c.ConcurrentResourceQuotaSyncs,
		"quotas counted at once")
	fs.IntVar(&c.MirroringConcurrentSyncs, "mirroring-concurrent-service-endpoint-syncs", c.MirroringConcurrentSyncs,
		"Endpoints mirrored at once")
	fs.IntVar(&c.ConcurrentEndpointSyncs, "concurrent-endpoint-syncs", c.ConcurrentEndpointSyncs,
		"services whose endpoints are written at once")
	fs.IntVar(&c.ConcurrentServiceEndpointSyncs, "concurrent-service-endpoint-syncs", c.ConcurrentServiceEndpointSyncs,
		"services whose endpoint slices are written at once")
	fs.IntVar(&c.ConcurrentDeploymentSyncs, "concurrent-deployment-syncs", c.ConcurrentDeploymentSyncs,
		"deployments reconciled at once")
	fs.IntVar(&c.ConcurrentRCSyncs, "concurrent-rc-syncs", c.ConcurrentRCSyncs,
		"replication controllers reconciled at once")
	fs.IntVar(&c.ConcurrentReplicaSetSyncs, "concurrent-replicaset-syncs", c.ConcurrentReplicaSetSyncs,
		"replica sets reconciled at once")
	fs.IntVar(&c.ConcurrentPolicySyncs, "concurrent-validating-admission-policy-status-syncs", c.ConcurrentPolicySyncs,
		"validating admission policies checked at once")
	fs.IntVar(&c.ConcurrentNamespaceSyncs, "concurrent-namespace-syncs", c.ConcurrentNamespaceSyncs,
		"namespaces emptied at once")
}
