package apiserver

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/peers"
)

func (s *Server) makePeers() (err error) {
	if err := s.config.Peers.Check(s.gates.On(gates.UnknownVersionInteroperabilityProxy), s.aggregator.Certificate() != nil); err != nil {
		return err
	}
	s.peers, err = peers.New(peers.Config{
		ID: s.id(), Address: s.peerAddress(),
		Store: s.places[0].store, Prefix: s.config.EtcdPrefix, Objects: s.local,
		CAFile: s.config.Peers.CAFile, Certificate: s.aggregator.Certificate, Dial: s.egress.ControlPlane(),
		Changed: s.custom.discovery.SetPeers, Clock: s.config.Clock,
	})
	if err != nil {
		return err
	}
	return s.peers.Register(s.registry)
}

// toldPeers is peerAddress, if servers know of each other.
func (s *Server) toldPeers() string {
	if !s.gates.On(gates.UnknownVersionInteroperabilityProxy) {
		return ""
	}
	return s.peerAddress()
}

// peerAddress is where other API servers reach this one.
func (s *Server) peerAddress() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return s.listener.Addr().String()
	}
	if ip, advertised := s.advertised(); ip != nil {
		host, port = ip.String(), strconv.Itoa(advertised)
	}
	if s.config.Peers.AdvertiseIP != "" {
		host = s.config.Peers.AdvertiseIP
	}
	if s.config.Peers.AdvertisePort != "" {
		port = s.config.Peers.AdvertisePort
	}
	return net.JoinHostPort(host, port)
}

// route returns what serves a request in the place of this server, or nil.
func (s *Server) route(r *http.Request) http.Handler {
	if h := s.aggregator.Route(r); h != nil {
		return h
	}
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || s.peers.Alone() {
		return nil
	}
	if s.api.Serves(&request.RequestInfo{APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource}) {
		return nil
	}
	return s.peers.Route(r, info)
}

// beKnown tells the cluster of this server until ctx ends, and then takes that back.
func (s *Server) beKnown(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.keepBootstrap(ctx) })
	if s.gates.On(gates.UnknownVersionInteroperabilityProxy) {
		group.Go(func() error { return s.peers.Run(ctx) })
	}
	return group.Wait()
}
