package apiserver

import (
	"context"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/admission"
	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/componentstatus"
	"quintet.dev/quintet/components/apiserver/connect"
	"quintet.dev/quintet/components/apiserver/crd"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/handlers"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/registry"
	"quintet.dev/quintet/components/apiserver/reviews"
	"quintet.dev/quintet/components/apiserver/subresources"
)

// servedKinds are the rows of what is served to clients: as they are stored, with the hooks that need policy.
func servedKinds(
	b *base, s *stores, r *kindRegistry, services api.ServiceAllocator, a access, c *catalog,
) []*api.Kind {
	allowed := &reviews.Access{Authorizer: a.authz, Rules: a.authz}
	binder := newBinder(b, r)
	return newKinds(b, api.Deps{
		Services: services, NamespaceLabels: r.namespaceLabels, Authorize: authorize(a.authz),
		Stored: r.Get, Resolve: c.resourceFor, Issued: metrics.Issued(b.registry),
		Bind: func(ctx context.Context, binding *corev1.Binding, asked api.CreateRequest) (*corev1.Binding, error) {
			admit := func(runtime.Object) error { return asked.Admit() }
			return nil, binder.Bind(ctx, binding.Namespace, binding.Name, binding, asked.DryRun, admit)
		},
		ComponentStatuses: func(ctx context.Context, name string) []*corev1.ComponentStatus {
			return componentstatus.Read(ctx, componentstatus.Defaults(s.ask), name)
		},
		TokenReview:              reviews.Token(a.authn),
		SelfSubjectReview:        reviews.Self(b.config.Clock.Now),
		SubjectAccessReview:      allowed.Subject,
		LocalSubjectAccessReview: allowed.LocalSubject,
		SelfSubjectAccessReview:  allowed.Self,
		SelfSubjectRulesReview:   allowed.SelfRules,
	})
}

// authorize refuses what the authorizer doesn't allow.
func authorize(by authorizer.Authorizer) func(context.Context, authorizer.AttributesRecord) error {
	return func(ctx context.Context, a authorizer.AttributesRecord) error {
		decision, reason, err := by.Authorize(ctx, a)
		switch {
		case decision == authorizer.DecisionAllow:
			return nil
		case err != nil:
			return err
		}
		return answer.Forbidden(a, reason)
	}
}

// newConnector makes what takes connections over: to kubelets, and by proxies.
func newConnector(b *base, r *kindRegistry) (*connect.Connector, error) {
	c := &b.config
	return connect.New(connect.Config{
		Objects:           r.Local,
		ClientCertificate: c.KubeletClientCertificate, ClientKey: c.KubeletClientKey,
		Authority: c.KubeletCertificateAuthority, AddressTypes: c.KubeletPreferredAddressTypes,
		Logs: metrics.PodLogs(b.registry), Dial: b.egress.Cluster(), Timeout: c.KubeletTimeout,
		MaxBytesPerSecond: c.MaxConnectionBytes, Port: c.KubeletPort,
		PlainPortForward: !b.gates.On(gates.PortForwardWebsockets),
		TranslateAll:     !b.gates.On(gates.ExtendWebSocketsToKubelet),
	})
}

// newAPI makes what serves resources to clients.
func newAPI(
	b *base, r *kindRegistry, rows []*api.Kind, a access, checked *admission.Chain, taken *connect.Connector,
) *handlers.API {
	connects := map[string]handlers.Connect{}
	for name, h := range taken.Handlers() {
		connects[name] = h
	}
	return handlers.New(handlers.Config{
		Registry: registry.New(registry.Config{
			Resources: r.withCaches(rows), Scheme: b.scheme(), Types: b.types(), Admission: checked,
			Clock:       b.config.Clock,
			NoCollector: b.config.NoGarbageCollection, DeleteWorkers: b.config.DeleteCollectionWorkers,
		}),
		Scheme: b.scheme(), Codec: b.codec(), Clock: b.config.Clock, MinWatch: b.config.Serving.MinRequestTimeout,
		NoWatchList:    !b.gates.On(gates.WatchList),
		NoUpgradeCheck: !b.gates.On(gates.AuthorizePodWebsocketUpgradeCreatePermission),
		CBOR:           b.gates.On(gates.CBORServingAndStorage),
		NoCompression:  !b.gates.On(gates.APIResponseCompression),
		Meter:          metrics.NewRequests(b.registry),
		Authorizer:     a.authz, Posts: posts(b, r, a), Connects: connects,
	})
}

func newBinder(b *base, r *kindRegistry) *subresources.Binder {
	return &subresources.Binder{
		Objects: r.Local, Clock: b.config.Clock, Prefix: b.config.EtcdPrefix,
		KeepNominated: !b.gates.On(gates.ClearingNominatedNodeNameAfterBinding),
		NoLabels:      !b.gates.On(gates.PodTopologyLabelsAdmission),
	}
}

// posts are the subresources that take an object.
func posts(b *base, r *kindRegistry, a access) map[string]handlers.Post {
	binder := newBinder(b, r)
	evicter := &subresources.Evicter{Objects: r.Local, Pods: r.Local, Clock: b.config.Clock}
	return map[string]handlers.Post{
		"pods/binding": func(ctx context.Context, p handlers.Posted) (runtime.Object, error) {
			return nil, binder.Bind(ctx, p.Namespace, p.Name, p.Body.(*corev1.Binding), p.DryRun, p.Admit)
		},
		"pods/eviction": func(ctx context.Context, p handlers.Posted) (runtime.Object, error) {
			return nil, evicter.Evict(ctx, p.Namespace, p.Name, p.Body.(*policyv1.Eviction), p.DryRun, p.Admit)
		},
		"serviceaccounts/token": func(ctx context.Context, p handlers.Posted) (runtime.Object, error) {
			return a.tokens.Request(ctx, p.Namespace, p.Name, p.Body.(*authenticationv1.TokenRequest), p.Admit)
		},
	}
}

// newDefinitions makes what follows definitions of custom resources, and serves these.
func newDefinitions(b *base, r *kindRegistry, c *catalog, verbs *handlers.API) *crd.Manager {
	others := peerServers{registry: r, id: b.id, told: b.config.Servers}
	return crd.New(crd.Config{
		Objects: registry.StrictReader{Local: r.Local},
		Install: func(ctx context.Context, rows []*api.Kind, defined []schema.GroupVersion) error {
			return c.install(ctx, rows, defined, verbs.Install)
		},
		Shadows: c.shadows, Convert: c.convertCustom, List: c.listCustom,
		EstablishAfter: others.establishAfter(), Shared: others.exist,
		Services: newServiceResolver(b, r), Egress: webhookEgress(b), Clock: b.config.Clock,
	})
}

// peerServers are the other servers on the same store.
type peerServers struct {
	registry *kindRegistry
	id       string // of this server
	told     int    // how many there are by the configuration, with this one
}

// establishAfter is for how long a custom resource is there before clients are told: each server is to have it by then.
func (p peerServers) establishAfter() time.Duration {
	if p.told > 1 {
		return 5 * time.Second // upstream's
	}
	return 0
}

// exist reports whether there may be any: so many were told of, or they tell of themselves.
func (p peerServers) exist(ctx context.Context) bool {
	if p.told > 1 {
		return true
	}
	all, err := p.registry.List(ctx, coordinationv1.Resource("leases"), metav1.NamespaceSystem)
	return err != nil || slices.ContainsFunc(all, func(lease api.Object) bool {
		return bootstrap.IsServer(lease) && lease.GetName() != p.id
	})
}
