package apiserver

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"

	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/componentstatus"
	"quintet.dev/quintet/components/apiserver/connect"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/handlers"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/reviews"
	"quintet.dev/quintet/components/apiserver/server"
	"quintet.dev/quintet/components/apiserver/services"
	"quintet.dev/quintet/components/apiserver/subresources"
	"quintet.dev/quintet/components/apiserver/tokens"
	"quintet.dev/quintet/internal/release"
)

// makeAuth makes who decides: authentication, authorization, admission. They read objects in process.
func (s *Server) makeAuth() (err error) {
	reached := &later{} // by what is needed to make the objects that it will reach
	if err := s.makeServices(reached); err != nil {
		return err
	}
	s.table = s.resources(s.kinds())
	s.local = handlers.New(handlers.Config{Resources: s.table, Scheme: s.scheme(), Codec: s.codec(), Types: s.types(), Clock: s.config.Clock}).Local()
	reached.Store = s.local
	s.making.Go(func() { s.local.Prepare(bootstrap.Resources()...) }) // while the rest is made
	s.makeSelf()
	if err := s.makeAuthorization(); err != nil {
		return err
	}
	s.makeBootstrap()
	s.begin()
	if err := s.makeTokens(); err != nil {
		return err
	}
	if err := s.makeAuthentication(); err != nil {
		return err
	}
	return s.makeAdmission()
}

// later is an objects.Store that is filled in before the server runs.
type later struct{ objects.Store }

// makeServices makes what gives Services their addresses and ports.
func (s *Server) makeServices(stored objects.Store) error {
	advertised, _ := s.advertised()
	ranges, ports, err := s.config.ServiceRanges(advertised)
	if err != nil {
		return err
	}
	s.ranges = ranges
	if s.services, err = services.New(services.Config{
		CIDRs: ranges, FirstNodePort: ports.Base, NodePorts: ports.Size, Clock: s.config.Clock, Objects: stored,
		Ranges: &services.StoredRange{
			Store: s.placeOf(corev1.Resource("servicenodeportallocations")).store, Key: s.config.EtcdPrefix + "/ranges/servicenodeports", Range: ports,
		},
	}); err != nil {
		return err
	}
	return s.registry.Register(s.services.Metrics())
}

func (s *Server) jwksURI() string {
	if s.config.ServiceAccountJWKSURI != "" {
		return s.config.ServiceAccountJWKSURI
	}
	return "https://" + s.endpoint() + tokens.KeysPath
}

// id tells API servers of one cluster apart, among other things in metrics.
func (s *Server) id() string { return bootstrap.LeaseName(s.config.Identity) }

// endpoint is the host and port by which clients are told to reach this server.
func (s *Server) endpoint() string {
	ip, port := s.advertised()
	if host := s.config.ExternalHostname; host != "" {
		return net.JoinHostPort(host, strconv.Itoa(port))
	}
	if ip != nil {
		return net.JoinHostPort(ip.String(), strconv.Itoa(port))
	}
	return s.listener.Addr().String()
}

// kinds is the table; what its rows need and is made later is reached through s.
func (s *Server) kinds() []*kinds.Kind {
	access := func() *reviews.Access { return &reviews.Access{Authorizer: s.authz, Rules: s.authz} }
	table := kinds.Table(kinds.Deps{
		Clock: s.config.Clock, Services: s.services, AllowPrivileged: s.config.AllowPrivileged, ScaleToZero: s.gates.On(gates.HPAScaleToZero), NominateBound: !s.gates.On(gates.ClearingNominatedNodeNameAfterBinding),
		StrictServiceNames: !s.gates.On(gates.RelaxedServiceNameValidation), OpenCIDRStatus: !s.gates.On(gates.ServiceCIDRStatusFieldWiping),
		NamespaceLabels: s.namespaceLabels, Authorize: s.authorize, Stored: s.stored, Resolve: s.resourceFor, Issued: metrics.Issued(s.registry),
		Bind: func(ctx context.Context, b *corev1.Binding, asked kinds.Asked) (*corev1.Binding, error) {
			return nil, s.binder().Bind(ctx, b.Namespace, b.Name, b, asked.DryRun, func(runtime.Object) error { return asked.Admit() })
		},
		ComponentStatuses: func(ctx context.Context, name string) []*corev1.ComponentStatus {
			return componentstatus.Read(ctx, componentstatus.Defaults(s.askStore), name)
		},
		TokenReview: func(ctx context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
			return reviews.Token(s.authn)(ctx, r)
		},
		SelfSubjectReview: reviews.Self(s.config.Clock.Now),
		SubjectAccessReview: func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
			return access().Subject(ctx, r)
		},
		LocalSubjectAccessReview: func(ctx context.Context, r *authorizationv1.LocalSubjectAccessReview) (*authorizationv1.LocalSubjectAccessReview, error) {
			return access().LocalSubject(ctx, r)
		},
		SelfSubjectAccessReview: func(ctx context.Context, r *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error) {
			return access().Self(ctx, r)
		},
		SelfSubjectRulesReview: func(ctx context.Context, r *authorizationv1.SelfSubjectRulesReview) (*authorizationv1.SelfSubjectRulesReview, error) {
			return access().SelfRules(ctx, r)
		},
	})
	table = slices.DeleteFunc(table, func(kind *kinds.Kind) bool { return !s.serve(kind) })
	for _, kind := range table {
		if ttl := s.config.EventTTL; ttl != 0 && kind.Prefix == "events" {
			kind.TTL = func(kinds.Object) time.Duration { return max(ttl, 0) }
		}
	}
	return table
}

// serve marks what of a kind isn't served, and reports whether anything is.
func (s *Server) serve(kind *kinds.Kind) (any bool) {
	on := kind.Gate == "" || s.gates.On(kind.Gate)
	for i := range kind.Versions {
		v := &kind.Versions[i]
		v.Unserved = v.Unserved || !on || !s.config.ServesAPI(v.GroupVersion, kind.Resource)
		any = any || !v.Unserved
	}
	return any
}

func (s *Server) binder() *subresources.Binder {
	return &subresources.Binder{
		Objects: s.local, Clock: s.config.Clock, Prefix: s.config.EtcdPrefix,
		KeepNominated: !s.gates.On(gates.ClearingNominatedNodeNameAfterBinding), NoLabels: !s.gates.On(gates.PodTopologyLabelsAdmission),
	}
}

// posts are the subresources that take an object.
func (s *Server) posts() map[string]handlers.Post {
	evicter := &subresources.Evicter{Objects: s.local, Pods: s.local, Clock: s.config.Clock}
	return map[string]handlers.Post{
		"pods/binding": func(ctx context.Context, p handlers.Posted) (runtime.Object, error) {
			return nil, s.binder().Bind(ctx, p.Namespace, p.Name, p.Body.(*corev1.Binding), p.DryRun, p.Admit)
		},
		"pods/eviction": func(ctx context.Context, p handlers.Posted) (runtime.Object, error) {
			return nil, evicter.Evict(ctx, p.Namespace, p.Name, p.Body.(*policyv1.Eviction), p.DryRun, p.Admit)
		},
		"serviceaccounts/token": func(ctx context.Context, p handlers.Posted) (runtime.Object, error) {
			return s.tokens.Request(ctx, p.Namespace, p.Name, p.Body.(*authenticationv1.TokenRequest), p.Admit)
		},
	}
}

func (s *Server) makeAPI() (err error) {
	s.connector, err = connect.New(connect.Config{
		Objects:           s.local,
		ClientCertificate: s.config.KubeletClientCertificate, ClientKey: s.config.KubeletClientKey,
		Authority: s.config.KubeletCertificateAuthority, AddressTypes: s.config.KubeletPreferredAddressTypes,
		Logs: metrics.PodLogs(s.registry), Dial: s.egress.Cluster(), Timeout: s.config.KubeletTimeout, MaxBytesPerSecond: s.config.MaxConnectionBytes, Port: s.config.KubeletPort,
		PlainPortForward: !s.gates.On(gates.PortForwardWebsockets), TranslateAll: !s.gates.On(gates.ExtendWebSocketsToKubelet),
	})
	if err != nil {
		return err
	}
	connects := map[string]handlers.Connect{}
	for name, h := range s.connector.Handlers() {
		connects[name] = h
	}
	s.api = handlers.New(handlers.Config{
		Resources: s.table, Scheme: s.scheme(), Codec: s.codec(), Types: s.types(), Clock: s.config.Clock, MinWatch: s.config.Serving.MinRequestTimeout,
		NoCollector: s.config.NoGarbageCollection, DeleteWorkers: s.config.DeleteCollectionWorkers,
		NoWatchList: !s.gates.On(gates.WatchList), NoUpgradeCheck: !s.gates.On(gates.AuthorizePodWebsocketUpgradeCreatePermission),
		CBOR:          s.gates.On(gates.CBORServingAndStorage),
		NoCompression: !s.gates.On(gates.APIResponseCompression),
		Meter:         metrics.NewRequests(s.registry),
		Admission:     s.admission, Authorizer: s.authz, Posts: s.posts(), Connects: connects,
	})
	return nil
}

// paths is everything that is not a resource.
func (s *Server) paths() *server.Mux {
	m := server.NewMux()
	m.Service("/version", onlyGet("application/json", s.serveVersion))
	addTo(m, s.config.Profiling.Begin())
	s.installPages(m)
	s.fairness.install(m)
	s.installLogs(m)
	s.installIssuer(m)
	s.installDiscovery(m)
	index := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string][]string{"paths": s.listed(m)})
	})
	m.Exact("/", index)
	m.Exact("/index.html", index)
	return m
}

// listed are the paths that are told of.
func (s *Server) listed(m *server.Mux) []string {
	paths := append(slices.DeleteFunc(m.List(), unlisted), s.custom.discovery.Paths()...)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// unlisted are the paths of which the list doesn't tell.
func unlisted(path string) bool {
	return path == "/" || path == "/index.html" || path == "/api/" || strings.HasPrefix(path, "/debug/")
}

// installDiscovery tells what is served.
func (s *Server) installDiscovery(m *server.Mux) {
	d, o := s.custom.discovery, s.custom.openapi
	m.Exact("/api", d)
	m.Exact("/apis", d)
	m.Prefix("/api/", d)
	m.Prefix("/apis/", d)
	m.Exact("/openapi/v2", o)
	m.Exact("/openapi/v3", o)
	m.Prefix("/openapi/v3/", o)
}

// installIssuer lets others verify service account tokens, if the issuer is one that can be found by its URL.
func (s *Server) installIssuer(m *server.Mux) {
	documents, err := s.tokens.Discovery()
	if err != nil {
		return
	}
	m.Service(tokens.ConfigurationPath, onlyGet("application/json", documents.ServeConfiguration))
	m.Service(tokens.KeysPath, onlyGet("application/jwk-set+json", documents.ServeKeys))
}

// onlyGet serves by one method what has but one form; "" is whatever it may be.
func onlyGet(media string, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			answer.Error(w, r, apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false))
			return
		}
		if accept := r.Header.Get("Accept"); accept != "" && media != "" && !negotiate.Named(accept, media, "*/*") {
			answer.Error(w, r, negotiate.NotAvailable(media))
			return
		}
		h(w, r)
	})
}

func (s *Server) serveVersion(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.version()) }

// version tells of the release, and that it behaves as none but itself; by default it works with what the one before it has written.
func (s *Server) version() apiversion.Info {
	v := release.Get()
	v.EmulationMajor, v.EmulationMinor = v.Major, v.Minor
	v.MinCompatibilityMajor, v.MinCompatibilityMinor, _ = strings.Cut(s.config.MinCompatibility, ".")
	return v
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
