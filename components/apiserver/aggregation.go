package apiserver

import (
	"context"
	"net/netip"

	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/components/apiserver/aggregation"
	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/discovery"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/handlers"
	"quintet.dev/quintet/components/apiserver/openapi"
	"quintet.dev/quintet/internal/release"
)

// makeAggregator makes what lets others serve group versions, and what tells of theirs and of ours.
func (s *Server) makeAggregator() (err error) {
	s.custom.discovery = discovery.New(discovery.Config{
		Address: s.endpoint(), Within: s.within(), Hashes: s.gates.On(gates.StorageVersionHash), CBOR: s.gates.On(gates.CBORServingAndStorage),
		NoCompression: !s.gates.On(gates.APIResponseCompression), ID: s.id(),
	})
	s.custom.openapi = openapi.New(release.Get().GitVersion, openapi.Form{CBOR: s.gates.On(gates.CBORServingAndStorage), NoEnums: !s.gates.On(gates.OpenAPIEnums)})
	if err := s.custom.discovery.Register(s.registry); err != nil {
		return err
	}
	s.aggregator, err = aggregation.New(aggregation.Config{
		Objects: s.local, Whole: handlers.Whole{Local: s.local}, Services: s.resolver(), Writers: s.writers(), Clock: s.config.Clock, Library: s.library,
		Dial: s.egress.Cluster(), Traced: s.tracesOn(), PassRedirects: s.config.PassRedirects, NoUIDs: !s.gates.On(gates.RemoteRequestHeaderUID),
		ClientCertFile: s.config.ProxyClientCert, ClientKeyFile: s.config.ProxyClientKey,
		Changed: func(v aggregation.View) {
			s.custom.discovery.Arrange(v.Services, v.Own, v.Removed, v.Elsewhere)
			s.custom.openapi.SetElsewhere(v.Sources)
		},
	})
	if err != nil {
		return err
	}
	return s.tell(nil, nil)
}

func (s *Server) resolver() serviceResolver {
	return serviceResolver{objects: s.local, endpointsOnly: s.config.EnableAggregatorRouting}
}

// ensureFirstObjects writes what a new cluster starts with. Only APIServices wait for all definitions to be read, as one that isn't
// known yet would cost its resources theirs.
func (s *Server) ensureFirstObjects(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := s.layFirst(ctx)
		if err == nil {
			close(s.first)
		}
		return err
	})
	group.Go(func() error {
		if err := s.custom.manager.Sync(ctx); err != nil {
			return err
		}
		s.synced.Store(true)
		if err := s.aggregator.Sync(ctx); err != nil {
			return err
		}
		s.installed.Store(true)
		return s.aggregator.Acquaint(ctx)
	})
	return group.Wait()
}

// within is the address of the Service of API servers, for clients in the range of services.
func (s *Server) within() discovery.Within {
	return discovery.Within{Range: s.ranges[0], Address: netip.AddrPortFrom(s.ranges[0].Addr().Next(), bootstrap.ServicePort).String()}
}
