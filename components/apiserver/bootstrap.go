package apiserver

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/options"
)

// bootstrapper writes the objects that a cluster starts with, and keeps those that tell of this server.
type bootstrapper struct {
	*bootstrap.Bootstrap
	stores *stores
	early  *earlyStart // nil without
}

// newBootstrapper begins to write the first objects, where that can be done before the server runs.
func newBootstrapper(
	b *base, s *stores, r *kindRegistry, services api.ServiceAllocator, a access, undo *cleanup,
) *bootstrapper {
	var masters *bootstrap.Masters
	servers := 0
	switch b.config.EndpointReconciler {
	case options.EndpointsByLease:
		masters = &bootstrap.Masters{Store: s.first().store, Prefix: b.config.EtcdPrefix}
	case options.EndpointsByCount:
		servers = b.config.Servers
	}
	peer := ""
	if b.gates.On(gates.UnknownVersionInteroperabilityProxy) {
		peer = b.addresses.peer
	}
	first := bootstrap.New(bootstrap.Config{
		Objects: newAllocatingStore(r, services),
		NoLease: !b.gates.On(gates.APIServerIdentity), Identity: b.config.Identity,
		Masters: masters, Servers: servers, NodePort: b.config.KubernetesNodePort,
		AdvertiseAddress: b.addresses.ip, SecurePort: b.addresses.port,
		ServiceIP: b.services.serverIP().AsSlice(), ServiceCIDRs: b.services.clusterIPs,
		ClientCA: a.authn.ClientCA, RequestHeaderCA: a.authn.RequestHeaderCA, RequestHeader: b.config.RequestHeader,
		NoUIDHeaders: !b.gates.On(gates.RemoteRequestHeaderUID),
		NoRoles:      !a.authz.HasRBAC(), Writers: concurrentWrites(b), Clock: b.config.Clock,
		Features: policyFeatures(b), PeerAddress: peer,
	})
	if b.config.Storage != options.StorageMemory || b.config.Store != nil {
		return &bootstrapper{Bootstrap: first, stores: s}
	}
	early := startEarly(s, first)
	undo.add(early.end)
	return &bootstrapper{Bootstrap: first, stores: s, early: early}
}

// ensure writes the first objects, or what is missing of them if that has begun.
func (f *bootstrapper) ensure(ctx context.Context) error {
	if f.early == nil {
		return f.Ensure(ctx)
	}
	if err := f.EnsureServer(ctx); err != nil {
		return err
	}
	select {
	case <-f.early.laid:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runStores fills the caches and keeps them as their stores are, until ctx ends.
func (f *bootstrapper) runStores(ctx context.Context) error {
	if f.early != nil {
		f.early.context.from.Store(&ctx)
		defer context.AfterFunc(ctx, f.early.stop)()
		return f.early.group.Wait()
	}
	group, ctx := errgroup.WithContext(ctx)
	f.stores.run(ctx, group)
	return group.Wait()
}

// keep keeps what the server began with, and tells in events of what it can't.
func (f *bootstrapper) keep(ctx context.Context, b *base) error {
	client, err := typedcore.NewForConfig(b.loopback.Config())
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.Events("")})
	source := corev1.EventSource{Component: bootstrap.ServiceCIDRManager}
	return f.Run(ctx, broadcaster.NewRecorder(scheme.Scheme, source))
}

// earlyStart is what runs since New, as a store in memory has nothing that it could break: the caches over it, and the
// writing of what all clusters start with. A server in process is ready in 0.7 to 0.9 of the time that it takes
// without.
type earlyStart struct {
	group   *errgroup.Group
	stop    context.CancelFunc
	laid    chan struct{} // closed when that is written
	context *lateContext  // what it runs by
}

func startEarly(s *stores, first *bootstrap.Bootstrap) *earlyStart {
	late := &lateContext{Context: context.Background()}
	ctx, stop := context.WithCancel(late)
	group, ctx := errgroup.WithContext(ctx)
	e := &earlyStart{group: group, stop: stop, laid: make(chan struct{}), context: late}
	s.run(ctx, group)
	group.Go(func() error {
		if err := s.waitReady(ctx); err != nil {
			return err
		}
		if err := first.EnsureShared(ctx); err != nil {
			return err
		}
		close(e.laid)
		return nil
	})
	return e
}

// end stops what runs, and returns when it has ended.
func (e *earlyStart) end() {
	e.stop()
	_ = e.group.Wait()
}

// lateContext is a context with the values of another one, such as its logger, as soon as that is known.
type lateContext struct {
	context.Context
	from atomic.Pointer[context.Context]
}

// Value implements context.Context.
func (c *lateContext) Value(key any) any {
	if from := c.from.Load(); from != nil {
		return (*from).Value(key)
	}
	return c.Context.Value(key)
}
