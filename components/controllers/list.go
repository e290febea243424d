package controllers

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"

	"quintet.dev/quintet/components/controllers/bootstrapsigner"
	"quintet.dev/quintet/components/controllers/clusterroleaggregation"
	"quintet.dev/quintet/components/controllers/cronjob"
	"quintet.dev/quintet/components/controllers/csr"
	"quintet.dev/quintet/components/controllers/daemonset"
	"quintet.dev/quintet/components/controllers/deployment"
	"quintet.dev/quintet/components/controllers/endpoints"
	"quintet.dev/quintet/components/controllers/endpointslice"
	"quintet.dev/quintet/components/controllers/endpointslicemirroring"
	"quintet.dev/quintet/components/controllers/ephemeralvolume"
	"quintet.dev/quintet/components/controllers/job"
	"quintet.dev/quintet/components/controllers/legacytokens"
	"quintet.dev/quintet/components/controllers/nodelifecycle"
	"quintet.dev/quintet/components/controllers/nodettl"
	"quintet.dev/quintet/components/controllers/podgc"
	"quintet.dev/quintet/components/controllers/replicaset"
	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/serviceaccount"
	"quintet.dev/quintet/components/controllers/servicecidrs"
	"quintet.dev/quintet/components/controllers/statefulset"
	"quintet.dev/quintet/components/controllers/storageprotection"
	"quintet.dev/quintet/components/controllers/tainteviction"
	"quintet.dev/quintet/components/controllers/tokencleaner"
	"quintet.dev/quintet/components/controllers/ttlafterfinished"
	"quintet.dev/quintet/components/controllers/volumeexpand"
)

// entry is one controller: its names are upstream's.
type entry struct {
	name    string // as --controllers has it
	old     string // as --controllers had it before 1.28; still understood
	account string // its service account, to which the bootstrap RBAC roles are bound
	source  string // the component its events name
	// workers is how many keys it reconciles at once.
	workers func(*Config) int
	// make returns nil, nil if the configuration leaves the controller nothing to do.
	make func(h *host, env runner.Env) (runner.Controller, error)
	// needs is group/version/resource without which the controller has nothing to do, and which an API server may
	// leave out; empty for what every one serves.
	needs string
}

func one(*Config) int  { return 1 }
func four(*Config) int { return 4 }
func five(*Config) int { return 5 }

// list is all controllers.
func list() []entry {
	return []entry{
		{"serviceaccount-controller", "serviceaccount", "service-account-controller", "serviceaccount-controller", one,
			plain(serviceaccount.New), ""},
		{"serviceaccount-token-controller", "serviceaccount-token", "tokens-controller", "serviceaccount-token-controller",
			func(c *Config) int { return c.ConcurrentSATokenSyncs }, makeTokens, ""},
		{"clusterrole-aggregation-controller", "clusterrole-aggregation", "clusterrole-aggregation-controller",
			"clusterrole-aggregation-controller", one, plain(clusterroleaggregation.New), ""},
		{"root-ca-certificate-publisher-controller", "root-ca-cert-publisher", "root-ca-cert-publisher",
			"root-ca-cert-publisher", one, makeRootCA, ""},
		{"namespace-controller", "namespace", "namespace-controller", "namespace-controller",
			func(c *Config) int { return c.ConcurrentNamespaceSyncs }, makeNamespace, ""},
		{"deployment-controller", "deployment", "deployment-controller", "deployment-controller",
			func(c *Config) int { return c.ConcurrentDeploymentSyncs }, plain(deployment.New), ""},
		{"replicaset-controller", "replicaset", "replicaset-controller", "replicaset-controller",
			func(c *Config) int { return c.ConcurrentReplicaSetSyncs }, consistent(consistentReplicaSets, replicaset.New), ""},
		{"replicationcontroller-controller", "replicationcontroller", "replication-controller", "replication-controller",
			func(c *Config) int { return c.ConcurrentRCSyncs }, consistent(consistentReplicaSets, replicaset.NewForControllers),
			"v1/replicationcontrollers"},
		{"endpoints-controller", "endpoint", "endpoint-controller", "endpoint-controller",
			func(c *Config) int { return c.ConcurrentEndpointSyncs },
			func(h *host, env runner.Env) (runner.Controller, error) {
				return endpoints.New(env, h.config.EndpointUpdatesBatchPeriod)
			}, ""},
		{"endpointslice-controller", "endpointslice", "endpointslice-controller", "endpoint-slice-controller",
			func(c *Config) int { return c.ConcurrentServiceEndpointSyncs },
			func(h *host, env runner.Env) (runner.Controller, error) {
				return endpointslice.New(env, h.config.MaxEndpointsPerSlice,
					h.config.EndpointSliceUpdatesBatchPeriod)
			}, ""},
		{"garbage-collector-controller", "garbagecollector", "generic-garbage-collector", "garbage-collector-controller",
			func(c *Config) int { return c.ConcurrentGCSyncs }, makeGarbageCollector, ""},
		{"pod-garbage-collector-controller", "podgc", "pod-garbage-collector", "pod-garbage-collector", one,
			func(h *host, env runner.Env) (runner.Controller, error) {
				return podgc.New(env, h.config.TerminatedPodGCThreshold)
			}, ""},
		{"node-lifecycle-controller", "nodelifecycle", "node-controller", "node-controller", four,
			func(h *host, env runner.Env) (runner.Controller, error) {
				return nodelifecycle.New(env, h.config.nodeLifecycle())
			}, ""},
		{"taint-eviction-controller", "taint-eviction-controller", "node-controller", "taint-eviction-controller", four,
			plain(tainteviction.New), ""},
		{"device-taint-eviction-controller", "device-taint-eviction-controller", "device-taint-eviction-controller",
			"device-taint-eviction-controller",
			func(c *Config) int { return c.ConcurrentDeviceTaintEvictionSyncs }, makeDeviceTaintEviction,
			"resource.k8s.io/v1/resourceslices"},
		{"certificatesigningrequest-approving-controller", "csrapproving", "certificate-controller", "csrapproving",
			one, plain(csr.NewApprover), ""},
		{"certificatesigningrequest-signing-controller", "csrsigning", "certificate-controller", "csrsigning", one,
			makeSigner, ""},
		{"certificatesigningrequest-cleaner-controller", "csrcleaner", "certificate-controller", "csrcleaner", one,
			plain(csr.NewCleaner), ""},
		{"podcertificaterequest-cleaner-controller", "podcertificaterequest-cleaner-controller",
			"podcertificaterequestcleaner", "podcertificaterequest-cleaner", one, makePodRequestCleaner,
			"certificates.k8s.io/v1beta1/podcertificaterequests"},
		{"kube-apiserver-serving-clustertrustbundle-publisher-controller",
			"kube-apiserver-serving-clustertrustbundle-publisher-controller",
			"kube-apiserver-serving-clustertrustbundle-publisher", "kube-apiserver-serving-clustertrustbundle-publisher",
			one, makeBundlePublisher, "certificates.k8s.io/v1beta1/clustertrustbundles"},
		{"daemonset-controller", "daemonset", "daemon-set-controller", "daemonset-controller",
			func(c *Config) int { return c.ConcurrentDaemonSetSyncs },
			consistent(consistentDaemonSets, daemonset.New), "apps/v1/daemonsets"},
		{"statefulset-controller", "statefulset", "statefulset-controller", "statefulset-controller",
			func(c *Config) int { return c.ConcurrentStatefulSetSyncs },
			func(h *host, env runner.Env) (runner.Controller, error) {
				env.StaleReads = !h.config.on(consistentStatefulSets)
				return statefulset.New(env, h.config.on(maxUnavailable))
			},
			"apps/v1/statefulsets"},
		{"ttl-after-finished-controller", "ttl-after-finished", "ttl-after-finished-controller",
			"ttl-after-finished-controller",
			func(c *Config) int { return c.ConcurrentTTLSyncs }, plain(ttlafterfinished.New), "batch/v1/jobs"},
		{"disruption-controller", "disruption", "disruption-controller", "controllermanager", one, makeDisruption,
			"policy/v1/poddisruptionbudgets"},
		{"horizontal-pod-autoscaler-controller", "horizontalpodautoscaling", "horizontal-pod-autoscaler",
			"horizontal-pod-autoscaler", func(c *Config) int { return c.Autoscaler.ConcurrentSyncs }, makeAutoscaler,
			"autoscaling/v2/horizontalpodautoscalers"},
		{"job-controller", "job", "job-controller", "job-controller",
			func(c *Config) int { return c.ConcurrentJobSyncs }, consistent(consistentJobs, job.New), "batch/v1/jobs"},
		{"persistentvolumeclaim-protection-controller", "pvc-protection", "pvc-protection-controller",
			"persistentvolumeclaim-protection-controller", one,
			plain(storageprotection.NewClaims), ""},
		{"persistentvolume-protection-controller", "pv-protection", "pv-protection-controller",
			"persistentvolume-protection-controller", one,
			plain(storageprotection.NewVolumes), ""},
		{"volumeattributesclass-protection-controller", "volumeattributesclass-protection-controller",
			"volumeattributesclass-protection-controller",
			"volumeattributesclass-protection-controller", one, plain(storageprotection.NewClasses),
			"storage.k8s.io/v1/volumeattributesclasses"},
		{"persistentvolume-binder-controller", "persistentvolume-binder", "persistent-volume-binder",
			"persistentvolume-controller", one,
			makeVolumeBinder, ""},
		{"persistentvolume-attach-detach-controller", "attachdetach", "attachdetach-controller", "attachdetach-controller",
			one,
			makeAttachDetach, "storage.k8s.io/v1/volumeattachments"},
		{"persistentvolume-expander-controller", "persistentvolume-expander", "expand-controller", "volume_expand", one,
			plain(volumeexpand.New), ""},
		{"ephemeral-volume-controller", "ephemeral-volume", "ephemeral-volume-controller", "ephemeral_volume",
			func(c *Config) int { return c.Storage.ConcurrentEphemeralVolumeSyncs }, plain(ephemeralvolume.New), ""},
		{"resourceclaim-controller", "resource-claim-controller", "resource-claim-controller", "resource_claim",
			func(c *Config) int { return c.Storage.ConcurrentResourceClaimSyncs }, makeResourceClaim,
			"resource.k8s.io/v1/resourceclaims"},
		{"ttl-controller", "ttl", "ttl-controller", "ttl-controller", five, plain(nodettl.New), ""},
		{"legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner",
			"legacy-service-account-token-cleaner",
			"legacy-service-account-token-cleaner", one, func(h *host, env runner.Env) (runner.Controller, error) {
				return legacytokens.New(env, h.config.LegacySATokenCleanUpPeriod)
			}, ""},
		{"cronjob-controller", "cronjob", "cronjob-controller", "cronjob-controller",
			func(c *Config) int { return c.ConcurrentCronJobSyncs }, plain(cronjob.New), "batch/v1/cronjobs"},
		{"resourcequota-controller", "resourcequota", "resourcequota-controller", "resourcequota-controller",
			func(c *Config) int { return c.ConcurrentResourceQuotaSyncs }, makeResourceQuota, ""},
		{"endpointslice-mirroring-controller", "endpointslicemirroring", "endpointslicemirroring-controller",
			"endpoint-slice-mirroring-controller",
			func(c *Config) int { return c.MirroringConcurrentSyncs },
			func(h *host, env runner.Env) (runner.Controller, error) {
				return endpointslicemirroring.New(env, h.config.MirroringMaxEndpointsPerSubset,
					h.config.MirroringUpdatesBatchPeriod)
			}, ""},
		{"validatingadmissionpolicy-status-controller", "validatingadmissionpolicy-status-controller",
			"validatingadmissionpolicy-status-controller",
			"validatingadmissionpolicy-status", func(c *Config) int { return c.ConcurrentPolicySyncs },
			makePolicyStatus, ""},
		{"service-cidr-controller", "service-cidr-controller", "service-cidrs-controller", "service-cidr-controller", five,
			plain(servicecidrs.New), "networking.k8s.io/v1/servicecidrs"},
		{"storage-version-migrator-controller", "svm", "storage-version-migrator-controller",
			"storage-version-migrator-controller", five, makeStorageMigrator,
			"storagemigration.k8s.io/v1beta1/storageversionmigrations"},
		{signerName, "bootstrapsigner", "bootstrap-signer", "bootstrapsigner", one, plain(bootstrapsigner.New), ""},
		{cleanerName, "tokencleaner", "token-cleaner", "tokencleaner", one, plain(tokencleaner.New), ""},
		{"node-ipam-controller", "nodeipam", "node-controller", "cidrAllocator", one, makeNodeIPAM, ""},
	}
}

// Controllers that "*" doesn't mean: few clusters have bootstrap tokens, and those name them.
const (
	signerName  = "bootstrap-signer-controller"
	cleanerName = "token-cleaner-controller"
)

// absent are controllers of upstream's manager that are not here, under all their names: those of cloud providers,
// which are programs of their own, and those whose features are off by default. They may be left out by name.
func absent() []string {
	return []string{
		"service-lb-controller", "service", "cloud-node-lifecycle-controller", "cloud-node-lifecycle",
		"node-route-controller", "route", "podgroup-protection-controller", "storageversion-garbage-collector-controller",
		"storage-version-gc", "resourcepoolstatusrequest-controller", "selinux-warning-controller",
	}
}

// plain is a controller that needs nothing but its environment.
func plain[C runner.Controller](make func(runner.Env) (C, error)) func(*host, runner.Env) (runner.Controller, error) {
	return func(_ *host, env runner.Env) (runner.Controller, error) { return make(env) }
}

// consistent is plain, for a controller that waits to see its own writes unless gate is off.
func consistent[C runner.Controller](gate featuregate.Feature,
	make func(runner.Env) (C, error)) func(*host, runner.Env) (runner.Controller, error) {
	return func(h *host, env runner.Env) (runner.Controller, error) {
		env.StaleReads = !h.config.on(gate)
		return make(env)
	}
}

func names() string {
	var all []string
	for _, e := range list() {
		all = append(all, e.name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// enabled returns the controllers selected by c.Controllers; the first mention of a name counts.
func (c *Config) enabled() ([]entry, error) {
	all := list()
	chosen := map[string]bool{}
	star := false
	for _, wanted := range c.Controllers {
		if wanted == "*" {
			star = true
			continue
		}
		plainName, off := strings.CutPrefix(wanted, "-")
		if plainName != "" && slices.Contains(absent(), plainName) {
			if !off {
				return nil, fmt.Errorf("--controllers: controller %q is not supported", plainName)
			}
			continue
		}
		at := slices.IndexFunc(all, func(e entry) bool { return e.name == plainName || e.old == plainName })
		if plainName == "" || at < 0 {
			return nil, fmt.Errorf("--controllers: %q is not the name of a controller; there are %s",
				plainName, names())
		}
		if _, mentioned := chosen[all[at].name]; !mentioned {
			chosen[all[at].name] = !off
		}
	}
	var enabled []entry
	for _, e := range all {
		if on, mentioned := chosen[e.name]; on ||
			(star && !mentioned && e.name != signerName && e.name != cleanerName) {
			enabled = append(enabled, e)
		}
	}
	return enabled, nil
}
