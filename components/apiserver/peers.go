package apiserver

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/handlers"
	"quintet.dev/quintet/components/apiserver/peers"
)

// newPeers makes what passes requests on to other API servers of the cluster.
func newPeers(b *base, s *stores, r *kindRegistry, c *catalog) (*peers.Peers, error) {
	on, certificate := b.gates.On(gates.UnknownVersionInteroperabilityProxy), c.aggregator.Certificate
	if err := b.config.Peers.Check(on, certificate() != nil); err != nil {
		return nil, err
	}
	others, err := peers.New(peers.Config{
		ID: b.id, Address: b.addresses.peer,
		Store: s.first().store, Prefix: b.config.EtcdPrefix, Objects: r.Local,
		CAFile: b.config.Peers.CAFile, Certificate: certificate, Dial: b.egress.ControlPlane(),
		Changed: c.discovery.SetPeers, Clock: b.config.Clock,
	})
	if err != nil {
		return nil, err
	}
	return others, others.Register(b.registry)
}

// route returns what finds out what serves a request in the place of this server; nil is this server.
func route(c *catalog, api *handlers.API, others *peers.Peers) func(*http.Request) http.Handler {
	return func(r *http.Request) http.Handler {
		if h := c.aggregator.Route(r); h != nil {
			return h
		}
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || others.Alone() {
			return nil
		}
		main := request.RequestInfo{APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource}
		if api.Serves(&main) {
			return nil
		}
		return others.Route(r, info)
	}
}
