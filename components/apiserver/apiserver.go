// Package apiserver is the API server: it joins the store, the caches, the table of kinds, the verbs, authentication,
// authorization and admission, and puts the request chain in front.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	goruntime "runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	basemetrics "k8s.io/component-base/metrics"
	basetracing "k8s.io/component-base/tracing"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/admission"
	"quintet.dev/quintet/components/apiserver/aggregation"
	"quintet.dev/quintet/components/apiserver/audit"
	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/authz"
	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/bootstrap/policy"
	"quintet.dev/quintet/components/apiserver/connect"
	"quintet.dev/quintet/components/apiserver/egress"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/handlers"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/peers"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/server"
	"quintet.dev/quintet/components/apiserver/services"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/encryption"
	"quintet.dev/quintet/components/apiserver/tokens"
	"quintet.dev/quintet/components/apiserver/tokens/external"
	"quintet.dev/quintet/internal/follow"
)

// Server is an API server. Its parts are made by New in the order in which they stand here.
type Server struct {
	config options.Config
	gates  *gates.Gates

	listener net.Listener     // opened first, as a taken port is the likeliest failure
	egress   *egress.Ways     // to others
	places   []*place         // of objects
	keys     *encryption.Keys // of values in the store; nil if they lie there open
	scheme   func() *runtime.Scheme
	codec    func() *serial.Codec
	types    func() *handlers.Types
	table    []handlers.Resource
	local    *handlers.Local
	self     self
	fairness *priorityAndFairness
	tracing  basetracing.TracerProvider // nil without a configuration

	services  *services.Allocator
	ranges    []netip.Prefix // of cluster IPs
	tokens    *tokens.Tokens
	keyFiles  *follow.Files    // of tokens
	signer    *external.Signer // of tokens, in another process; nil without
	authn     *authn.Chain
	authz     *authz.Chain
	admission *admission.Chain
	bootstrap *bootstrap.Bootstrap
	begun     *begun         // nil without
	making    sync.WaitGroup // of what New needs late
	connector *connect.Connector
	api       *handlers.API
	audit     *audit.Auditor
	front     *server.Server
	custom    custom

	aggregator *aggregation.Aggregator
	peers      *peers.Peers

	first     chan struct{} // closed when the first objects are there
	ready     chan struct{} // closed when the server has all that it needs
	left      chan struct{} // closed when the cluster has been told that the server goes
	synced    atomic.Bool   // the caches have their objects
	installed atomic.Bool   // all that is served is known
	made      time.Time
	logged    *logged

	registry   *prometheus.Registry     // of metrics
	library    basemetrics.KubeRegistry // of those that libraries want to register their way
	exposition server.Exposition
	sizes      metrics.Sizes
}

// New makes a server and begins to listen; nothing is served before Run. One whose store is memory is being filled from here on: it is to
// be run, be it with a context that has ended, as only that ends what does so.
func New(config options.Config) (*Server, error) {
	config, err := config.Complete()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: config, scheme: sync.OnceValue(serial.NewScheme),
		first: make(chan struct{}), ready: make(chan struct{}), left: make(chan struct{}), made: config.Clock.Now(), logged: newLogged(config.Clock, klog.Flush),
		registry: prometheus.NewRegistry(), library: basemetrics.NewKubeRegistry(),
	}
	s.codec = sync.OnceValue(func() *serial.Codec { return serial.NewCodec(s.scheme()) })
	s.types = sync.OnceValue(func() *handlers.Types { return handlers.NewTypes(s.scheme()) })
	s.making.Go(func() { s.codec() }) // takes long, and is needed late
	for _, step := range []func() error{
		s.setGates,
		s.checkAPIs,
		s.listen,
		s.makeEgress,
		s.makeTracing,
		s.openStore,
		s.makeEncryption,
		s.makeMeasures,
		s.makeExposition,
		s.makeCaches,
		s.makeAuth,
		s.makeAPI,
		s.makeCustom,
		s.makeAggregator,
		s.makePeers,
		s.makeAudit,
		s.makeFairness,
		s.makeFront,
	} {
		if err := step(); err != nil {
			s.abandon()
			return nil, err
		}
	}
	return s, nil
}

// abandon frees what a failed New had opened.
func (s *Server) abandon() {
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.begun.end()
	s.making.Wait()
	s.audit.Close()
	s.authn.Close()
	s.signer.Close()
	s.closeStore()
	s.endTracing(context.Background())
}

func (s *Server) makeEgress() (err error) {
	if s.egress, err = egress.Load(s.config.EgressFile); err != nil {
		return fmt.Errorf("--egress-selector-config-file: %w", err)
	}
	return nil
}

func (s *Server) listen() error {
	s.listener = s.config.Listener
	if s.listener != nil {
		return nil
	}
	address := net.JoinHostPort(s.config.BindAddress.String(), strconv.Itoa(max(s.config.SecurePort, 0)))
	listener, err := listen(s.config.Serving, address)
	if err != nil {
		return fmt.Errorf("listening on %s (--bind-address, --secure-port): %w", address, err)
	}
	s.listener = listener
	return nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Ready is closed when the server answers and everything that a new cluster starts with is there.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Objects is access to what is stored, past authorization and admission.
func (s *Server) Objects() *handlers.Local { return s.local }

// makeBootstrap makes what writes the first objects. It is needed before those are made who decide what else it tells of.
func (s *Server) makeBootstrap() {
	ip, port := s.advertised()
	var masters *bootstrap.Masters
	servers := 0
	switch s.config.EndpointReconciler {
	case options.EndpointsByLease:
		masters = &bootstrap.Masters{Store: s.places[0].store, Prefix: s.config.EtcdPrefix}
	case options.EndpointsByCount:
		servers = s.config.Servers
	}
	s.bootstrap = bootstrap.New(bootstrap.Config{
		Objects: s.local, NoLease: !s.gates.On(gates.APIServerIdentity), Identity: s.config.Identity, Masters: masters, Servers: servers, NodePort: s.config.KubernetesNodePort,
		AdvertiseAddress: ip, SecurePort: port, ServiceIP: s.ranges[0].Addr().Next().AsSlice(), ServiceCIDRs: s.ranges,
		ClientCA:        func() []byte { return s.authn.ClientCA() },
		RequestHeaderCA: func() []byte { return s.authn.RequestHeaderCA() }, RequestHeader: s.config.RequestHeader, NoUIDHeaders: !s.gates.On(gates.RemoteRequestHeaderUID),
		NoRoles: !s.authz.HasRBAC(), Writers: s.writers(), Clock: s.config.Clock,
		Features: s.features(), PeerAddress: s.toldPeers(),
	})
}

// writers is how many of the first objects are written at a time.
func (s *Server) writers() int {
	if s.config.Storage == options.StorageMemory {
		return goruntime.GOMAXPROCS(0) // nothing is waited for, so that more would only take turns
	}
	return 16 // etcd takes what comes together in one go
}

// features are those that bring roles.
func (s *Server) features() policy.Features {
	return policy.Features{
		StorageMigration: s.gates.On(gates.StorageVersionMigrator), TrustBundles: s.gates.On(gates.ClusterTrustBundle),
		NoFlagz: !s.gates.On(gates.ComponentFlagz), NoStatusz: !s.gates.On(gates.ComponentStatusz),
	}
}

// advertised is where clients in the cluster reach this server; no address if there is only the loopback.
func (s *Server) advertised() (net.IP, int) { return s.config.Advertised(s.listener.Addr()) }

func (s *Server) makeFront() error {
	tlsConfig, err := s.tlsConfig()
	if err != nil {
		return err
	}
	if err := s.registry.Register(s.aggregator); err != nil {
		return err
	}
	s.front, err = server.New(server.Config{
		Listener: s.listener, TLS: tlsConfig,
		Authenticator: s.authn,
		Tracing:       s.traced(),
		Audit:         s.auditFilters(),
		Impersonation: s.impersonation(),
		Fairness:      s.fairness.filter(),
		Authorizer:    s.authz,
		API:           s.api, Paths: s.paths(), Serves: s.api.Serves, Defined: s.api.Defined, Route: s.route, Installed: s.installed.Load,
		MaxInFlight: s.config.MaxRequestsInFlight, MaxMutatingInFlight: s.config.MaxMutatingRequestsInFlight,
		RequestTimeout: s.config.RequestTimeout, MaxStreams: s.config.Serving.HTTP2Streams,
		Edge: edge(s.config.Serving), Clock: s.config.Clock,
		Shutdown: server.Shutdown{
			Delay: s.config.Serving.ShutdownDelay, Left: s.left, RetryAfter: s.config.Serving.ShutdownSendRetryAfter, WatchGrace: s.config.Serving.ShutdownWatchGrace,
		},
		Live: s.liveChecks(), Health: s.liveChecks(s.keyChecks()...), Ready: s.readyChecks(),
		Registry: s.registry, Gatherers: []prometheus.Gatherer{s.library}, Exposition: s.exposition,
	})
	if err == nil {
		s.self.client.Handler = s.front.Handler()
	}
	return err
}

// Run serves until ctx ends, and returns when everything has stopped. It is called once.
func (s *Server) Run(ctx context.Context) error {
	defer s.endTracing(ctx)
	defer s.closeStore()
	defer s.connector.Close()
	defer s.authn.Close()
	defer s.signer.Close()
	// The parts behind the front outlive ctx, as long as the front drains.
	behind, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, behind := errgroup.WithContext(behind)
	front, stopFront := context.WithCancel(ctx)
	defer stopFront()
	defer context.AfterFunc(behind, stopFront)()

	group.Go(func() error { return s.runPlaces(behind) })
	group.Go(func() error { return s.authn.Run(behind) })
	group.Go(func() error { return s.keyFiles.Run(behind, s.config.Clock) })
	group.Go(func() error { return s.signer.Run(behind) })
	group.Go(func() error { return s.connector.Run(behind, s.config.Clock) })
	group.Go(func() error {
		select {
		case <-s.first: // so that nobody is refused by a server that is ready for want of them
		case <-behind.Done():
		}
		return s.authz.Run(behind)
	})
	group.Go(func() error { return s.admission.Run(behind) })
	group.Go(func() error { return s.self.run(behind) })
	group.Go(func() error { return s.audit.Run(behind) })
	group.Go(func() error { return s.fairness.run(behind, &s.self, s.config.Clock) })
	group.Go(func() error { return s.keys.Run(behind) })
	group.Go(func() error { return s.serveDebug(behind) })
	group.Go(func() error { return s.watchSize(behind) })
	group.Go(func() error { return s.logged.run(behind) })
	// The cluster is told that the server goes before it takes no more requests.
	leaving, leave := context.WithCancel(behind)
	defer leave()
	defer context.AfterFunc(ctx, leave)()
	group.Go(func() error { return s.settle(behind, leaving, sync.OnceFunc(func() { close(s.left) })) })
	var serving error
	group.Go(func() error {
		defer stop()
		serving = s.front.Run(front)
		leave()
		<-s.left
		return serving
	})
	err := group.Wait()
	if serving != nil { // which is why the others have ended
		return serving
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, errStopping) {
		return nil
	}
	return err
}

// errStopping stands for what fails only because the server stops, as its parts don't stop in any order.
var errStopping = errors.New("the server stops")

// settle brings the server from started to ready, and then keeps what it owns in the store. When leaving ends it takes back
// what it says of itself, and calls left.
func (s *Server) settle(ctx, leaving context.Context, left func()) error {
	defer left()
	if err := s.prepare(leaving); err != nil {
		if leaving.Err() != nil {
			return errStopping
		}
		return err
	}
	close(s.ready)
	klog.FromContext(ctx).Info("Ready", "address", s.listener.Addr().String())
	group, ctx := errgroup.WithContext(ctx)
	known, forget := context.WithCancel(leaving)
	defer forget()
	defer context.AfterFunc(ctx, forget)() // a part that fails ends this one, too: the server does not go on without it
	group.Go(func() error {
		defer left()
		return s.beKnown(known)
	})
	group.Go(func() error { return s.repairServices(ctx) })
	group.Go(func() error { return s.custom.manager.Run(ctx) })
	group.Go(func() error { return s.aggregator.Run(ctx) })
	for _, p := range s.places {
		group.Go(func() error {
			storage.KeepCompacted(ctx, p.store, s.config.Clock, s.config.EtcdCompactionInterval, p.caches.Forgotten)
			return nil
		})
	}
	return group.Wait()
}

// prepare returns when the caches are filled and the first objects are there.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.each(func(p *place) error { return p.caches.WaitReady(ctx) }); err != nil {
		return err
	}
	group, within := errgroup.WithContext(ctx)
	ports := make(chan struct{}) // closed when they are known
	group.Go(func() error {
		defer close(ports)
		return s.services.Prepare(within)
	})
	if s.config.KubernetesNodePort > 0 { // which one of the first objects takes
		<-ports
	}
	group.Go(func() error { return s.ensureFirstObjects(within) })
	if err := group.Wait(); err != nil {
		return err
	}
	return s.authz.WaitSynced(ctx)
}

// resources joins the table's rows with their caches.
func (s *Server) resources(table []*kinds.Kind) []handlers.Resource {
	out := make([]handlers.Resource, len(table))
	for i, kind := range table {
		out[i].Kind = kind
		switch {
		case !kind.Virtual():
			out[i].Cache = s.placeOfKind(kind).caches.Add(kind)
		case kind.Read != nil:
			out[i].Cache = s.places[0].caches.Unstored(kind)
		}
	}
	return out
}
