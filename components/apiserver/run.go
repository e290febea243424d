package apiserver

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/storage"
)

// Run serves until ctx ends, and returns when everything has stopped. It is called once.
func (s *Server) Run(ctx context.Context) error {
	defer closeTracing(ctx, s.tracing)
	defer s.stores.close(s.config)
	defer s.connector.Close()
	defer s.authn.Close()
	defer s.tokens.signer.Close()
	// The parts behind the front outlive ctx, as long as the front drains.
	behind, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, behind := errgroup.WithContext(behind)
	front, stopFront := context.WithCancel(ctx)
	defer stopFront()
	defer context.AfterFunc(behind, stopFront)()

	s.loopback.SetBaseContext(ctx)
	s.runParts(behind, group)
	// The cluster is told that the server goes before it takes no more requests.
	leaving, leave := context.WithCancel(behind)
	defer leave()
	defer context.AfterFunc(ctx, leave)()
	group.Go(func() error { return s.settle(behind, leaving, sync.OnceFunc(func() { close(s.progress.left) })) })
	var serving error
	group.Go(func() error {
		defer stop()
		serving = s.front.Run(front)
		leave()
		<-s.progress.left
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

// runParts runs in a group, which ctx ends, what serving needs.
func (s *Server) runParts(ctx context.Context, group *errgroup.Group) {
	clock := s.config.Clock
	group.Go(func() error { return s.bootstrap.runStores(ctx) })
	group.Go(func() error { return s.authn.Run(ctx) })
	group.Go(func() error { return s.tokens.files.Run(ctx, clock) })
	group.Go(func() error { return s.tokens.signer.Run(ctx) })
	group.Go(func() error { return s.connector.Run(ctx, clock) })
	group.Go(func() error {
		select {
		case <-s.progress.first: // so that a server that is ready refuses no request for want of them
		case <-ctx.Done():
		}
		return s.authz.Run(ctx)
	})
	group.Go(func() error { return s.admission.Run(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		s.registry.informers.Shutdown()
		return nil
	})
	group.Go(func() error { return s.audit.Run(ctx) })
	group.Go(func() error { return s.fairness.run(ctx, clock) })
	group.Go(func() error { return s.stores.keys.Run(ctx) })
	if path := s.config.DebugSocket; path != "" {
		group.Go(func() error { return serveDebug(ctx, path) })
	}
	group.Go(func() error { return s.stores.watchSize(ctx, s.config) })
	group.Go(func() error { return s.checks.log.run(ctx) })
}

// errStopping stands for what fails only because the server stops, as its parts don't stop in any order.
var errStopping = errors.New("the server stops")

// settle brings the server from started to ready, and then keeps what it owns in the store. When leaving ends it takes
// back what it says of itself, and calls left.
func (s *Server) settle(ctx, leaving context.Context, left func()) error {
	defer left()
	if err := s.prepare(leaving); err != nil {
		if leaving.Err() != nil {
			return errStopping
		}
		return err
	}
	close(s.progress.ready)
	klog.FromContext(ctx).Info("Ready", "address", s.listener.Addr().String())
	group, ctx := errgroup.WithContext(ctx)
	registered, forget := context.WithCancel(leaving)
	defer forget()
	defer context.AfterFunc(ctx, forget)() // a part that fails ends this one, too: the server does not go on without it
	group.Go(func() error {
		defer left()
		return s.runRegistration(registered)
	})
	group.Go(func() error { return repairServices(ctx, s.base, s.services) })
	group.Go(func() error { return s.crds.Run(ctx) })
	group.Go(func() error { return s.catalog.aggregator.Run(ctx) })
	for _, b := range s.stores.backends {
		group.Go(func() error {
			storage.KeepCompacted(ctx, b.store, s.config.Clock, s.config.EtcdCompactionInterval, b.caches.Forgotten)
			return nil
		})
	}
	return group.Wait()
}

// runRegistration tells the cluster of this server until ctx ends, and then takes that back.
func (s *Server) runRegistration(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.bootstrap.keep(ctx, s.base) })
	if s.gates.On(gates.UnknownVersionInteroperabilityProxy) {
		group.Go(func() error { return s.peers.Run(ctx) })
	}
	return group.Wait()
}

// prepare returns when the caches are filled and the first objects are there.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.stores.waitReady(ctx); err != nil {
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

// ensureFirstObjects writes what a new cluster starts with. Only APIServices wait for all definitions to be read, as
// one that isn't known yet would cost its resources theirs.
func (s *Server) ensureFirstObjects(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := s.bootstrap.ensure(ctx); err != nil {
			return err
		}
		// the caches, by which requests are authorized, hear of writes a moment later, of other servers' in particular
		if err := s.stores.catchUp(ctx); err != nil {
			return err
		}
		close(s.progress.first)
		return nil
	})
	group.Go(func() error {
		if err := s.crds.Sync(ctx); err != nil {
			return err
		}
		s.progress.synced.Store(true)
		if err := s.catalog.aggregator.Sync(ctx); err != nil {
			return err
		}
		s.progress.installed.Store(true)
		return s.catalog.aggregator.Acquaint(ctx)
	})
	return group.Wait()
}
