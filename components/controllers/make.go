package controllers

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/csr"
	"quintet.dev/quintet/components/controllers/devicetainteviction"
	"quintet.dev/quintet/components/controllers/disruption"
	"quintet.dev/quintet/components/controllers/garbagecollector"
	"quintet.dev/quintet/components/controllers/namespace"
	"quintet.dev/quintet/components/controllers/nodeipam"
	"quintet.dev/quintet/components/controllers/podcertificates"
	"quintet.dev/quintet/components/controllers/policystatus"
	"quintet.dev/quintet/components/controllers/resourceclaim"
	"quintet.dev/quintet/components/controllers/resourcequota"
	"quintet.dev/quintet/components/controllers/rootca"
	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/satoken"
	"quintet.dev/quintet/components/controllers/storageversionmigrator"
	"quintet.dev/quintet/components/controllers/trustbundles"
)

func makeRootCA(h *host, env runner.Env) (runner.Controller, error) {
	ca, err := h.rootCA()
	if err != nil || ca == nil {
		return nil, err
	}
	return rootca.New(env, ca)
}

// rootCA returns the certificate authority of the API server, in PEM; nil if it is not configured.
func (h *host) rootCA() ([]byte, error) {
	root := h.clients.root
	switch {
	case h.config.RootCAFile != "":
		return read("root-ca-file", h.config.RootCAFile)
	case len(root.CAData) > 0:
		return root.CAData, nil
	}
	return read("root-ca-file", root.CAFile)
}

// makeTokens uses the manager's identity: service accounts of controllers have no tokens before this controller runs.
func makeTokens(h *host, env runner.Env) (runner.Controller, error) {
	const flag = "service-account-private-key-file"
	key, err := read(flag, h.config.ServiceAccountPrivateKeyFile)
	if err != nil || key == nil {
		return nil, err
	}
	signer, err := satoken.NewSigner(key)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	ca, err := h.rootCA()
	if err != nil {
		return nil, err
	}
	env.Client = h.clients.client
	return satoken.New(env, signer, ca)
}

func makeNamespace(h *host, env runner.Env) (runner.Controller, error) {
	// One namespace takes a request for every resource there is; upstream allows as much more.
	config := scaleRateLimits(h.clients.config("namespace-controller"), 20, 100)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	env.Client = client
	return namespace.New(env, client.Discovery(), objects, h.config.NamespaceSyncPeriod)
}

// scaleRateLimits multiplies the rate limits of config.
func scaleRateLimits(config *rest.Config, qps, burst int) *rest.Config {
	if config.QPS > 0 {
		config.QPS *= float32(qps)
		config.Burst *= burst
	}
	return config
}

func makeNodeIPAM(h *host, env runner.Env) (runner.Controller, error) {
	if !h.config.AllocateNodeCIDRs {
		return nil, nil
	}
	o, err := h.config.nodeCIDRs()
	if err != nil {
		return nil, err
	}
	return nodeipam.New(env, o)
}

func makeSigner(h *host, env runner.Env) (runner.Controller, error) {
	authorities, err := h.config.authorities()
	if err != nil || len(authorities) == 0 {
		return nil, err
	}
	return csr.NewSigner(env, authorities, h.config.ClusterSigningDuration)
}

func makeGarbageCollector(h *host, env runner.Env) (runner.Controller, error) {
	if !h.config.EnableGarbageCollector {
		return nil, nil
	}
	config := scaleRateLimits(h.clients.config("generic-garbage-collector"), 2, 2)
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return garbagecollector.New(env, garbagecollector.Sources{
		Discovery: resources,
		Metadata:  objects,
		Mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(resources)),
		Shared:    h.shared(),
	})
}

// makePolicyStatus checks types by the schemas that the API server publishes, of its own kinds as of all others.
func makePolicyStatus(h *host, env runner.Env) (runner.Controller, error) {
	resources,
		err := discovery.NewDiscoveryClientForConfig(h.clients.config("validatingadmissionpolicy-status-controller"))
	if err != nil {
		return nil, err
	}
	return policystatus.New(env, &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: resources},
		RestMapper:     newMapper(resources, env.Clock),
	})
}

func makePodRequestCleaner(h *host, env runner.Env) (runner.Controller, error) {
	if !h.config.FeatureGates[podCertificates] {
		return nil, nil
	}
	return podcertificates.NewCleaner(env)
}

// makeBundlePublisher publishes nothing where no authority is configured.
func makeBundlePublisher(h *host, env runner.Env) (runner.Controller, error) {
	if !h.config.FeatureGates[trustBundle] {
		return nil, nil
	}
	ca, err := h.rootCA()
	if err != nil || len(ca) == 0 {
		return nil, err
	}
	return trustbundles.NewPublisher(env, ca)
}

func makeStorageMigrator(h *host, env runner.Env) (runner.Controller, error) {
	if !h.config.on(storageVersionMigrator) {
		return nil, nil
	}
	// it may have to write everything there is
	config := scaleRateLimits(h.clients.config("storage-version-migrator-controller"), 20, 100)
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	anything, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return storageversionmigrator.New(env, storageversionmigrator.Sources{Discovery: resources, Metadata: objects,
		Dynamic: anything})
}

func makeResourceClaim(h *host, env runner.Env) (runner.Controller, error) {
	return resourceclaim.New(env, h.registry)
}

// makeDeviceTaintEviction has DeviceTaintRules count only where the gate for them is on.
func makeDeviceTaintEviction(h *host, env runner.Env) (runner.Controller, error) {
	if !h.config.on(deviceTaints) {
		return nil, nil
	}
	return devicetainteviction.New(env, h.config.on(deviceTaintRules), h.registry)
}

func makeDisruption(h *host, env runner.Env) (runner.Controller, error) {
	config := h.clients.config("disruption-controller")
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := newMapper(resources, env.Clock)
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(resources))
	if err != nil {
		return nil, err
	}
	return disruption.New(env, scales, mapper)
}

func makeResourceQuota(h *host, env runner.Env) (runner.Controller, error) {
	config := h.clients.config("resourcequota-controller")
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := newMapper(resources, env.Clock)
	return resourcequota.New(env, objects, mapper, h.config.ResourceQuotaSyncPeriod)
}

// shared are the informers of the resources that nearly every cluster's controllers watch anyway.
func (h *host) shared() map[schema.GroupVersionResource]cache.SharedIndexInformer {
	core, apps := h.informers.Core().V1(), h.informers.Apps().V1()
	resource := func(group, version, name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
	}
	return map[schema.GroupVersionResource]cache.SharedIndexInformer{
		resource("", "v1", "pods"):            core.Pods().Informer(),
		resource("", "v1", "nodes"):           core.Nodes().Informer(),
		resource("", "v1", "namespaces"):      core.Namespaces().Informer(),
		resource("", "v1", "services"):        core.Services().Informer(),
		resource("", "v1", "endpoints"):       core.Endpoints().Informer(),
		resource("", "v1", "configmaps"):      core.ConfigMaps().Informer(),
		resource("", "v1", "serviceaccounts"): core.ServiceAccounts().Informer(),
		resource("apps", "v1", "replicasets"): apps.ReplicaSets().Informer(),
		resource("apps", "v1", "deployments"): apps.Deployments().Informer(),
		resource("discovery.k8s.io", "v1",
			"endpointslices"): h.informers.Discovery().V1().EndpointSlices().Informer(),
		resource("coordination.k8s.io", "v1",
			"leases"): h.informers.Coordination().V1().Leases().Informer(),
		resource("certificates.k8s.io", "v1",
			"certificatesigningrequests"): h.informers.Certificates().V1().CertificateSigningRequests().Informer(),
	}
}
