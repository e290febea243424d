// Package apiserver is the API server: it joins the store, the caches, the table of kinds, the verbs, authentication,
// authorization and admission, and puts the request chain in front.
package apiserver

import (
	"net"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/admission"
	"quintet.dev/quintet/components/apiserver/audit"
	"quintet.dev/quintet/components/apiserver/connect"
	"quintet.dev/quintet/components/apiserver/crd"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/server"
	"quintet.dev/quintet/components/apiserver/services"
)

// Server is an API server. Its fields are layers: each is made by New from those before it.
type Server struct {
	*base
	stores    *stores
	registry  *kindRegistry
	services  *services.Allocator
	bootstrap *bootstrapper
	admission *admission.Chain
	connector *connect.Connector
	crds      *crd.Manager
	apiParts
	progress *progress
	front    *server.Server
}

// New makes a server and begins to listen; nothing is served before Run. One whose store is memory is being filled from
// here on: it is to be run, be it with a context that has ended, as only that ends what does so.
func New(config options.Config) (*Server, error) {
	var undo cleanup
	s, err := newServer(config, &undo)
	if err != nil {
		undo.run()
		return nil, err
	}
	return s, nil
}

// newServer makes the layers, each from those before it, from the store to the listener.
func newServer(config options.Config, undo *cleanup) (*Server, error) {
	b, err := newBase(config, undo)
	if err != nil {
		return nil, err
	}

	// Storage and registry: objects as they are stored, for the server's own parts.
	rows := storedKinds(b)
	storage, err := newStores(b, rows, undo)
	if err != nil {
		return nil, err
	}
	objects := newRegistry(b, rows, storage, undo)

	// Policy: which addresses Services get, what users may do, what is served, what may be written.
	allocator, err := newServices(b, storage, objects)
	if err != nil {
		return nil, err
	}
	who, err := newAccess(b, objects, undo)
	if err != nil {
		return nil, err
	}
	first := newBootstrapper(b, storage, objects, allocator, who, undo)
	known, err := newCatalog(b, storage, objects)
	if err != nil {
		return nil, err
	}
	checked, err := newAdmission(b, objects, who, known)
	if err != nil {
		return nil, err
	}

	// API: the resources as clients have them.
	connector, err := newConnector(b, objects)
	if err != nil {
		return nil, err
	}
	api := newAPI(b, objects, servedKinds(b, storage, objects, allocator, who, known), who, checked, connector)
	crds := newDefinitions(b, objects, known, api)

	// Front: the request chain, and where requests go that are not for this server.
	others, err := newPeers(b, storage, objects, known)
	if err != nil {
		return nil, err
	}
	audited, err := audit.New(b.config.Audit, b.egress.ControlPlane())
	if err != nil {
		return nil, err
	}
	undo.add(audited.Close)
	fairness, err := newFairness(b, objects, known)
	if err != nil {
		return nil, err
	}
	far := newProgress()
	behind := apiParts{
		access: who, catalog: known, api: api, peers: others, audit: audited, fairness: fairness,
		checks: newChecks(b, storage, who, far),
	}
	front, err := newFront(b, behind, far)
	if err != nil {
		return nil, err
	}
	b.loopback.Handler = front.Handler() // from here on the server's parts can be its clients
	return &Server{
		base: b, stores: storage, registry: objects, services: allocator, bootstrap: first, admission: checked,
		connector: connector, crds: crds, apiParts: behind, progress: far, front: front,
	}, nil
}

func newChecks(b *base, s *stores, a access, p *progress) *checks {
	return &checks{
		base: b, stores: s, rbac: a.authz.HasRBAC(), progress: p, log: newLogFlushCheck(b.config.Clock, klog.Flush),
	}
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Ready is closed when the server answers and everything that a new cluster starts with is there.
func (s *Server) Ready() <-chan struct{} { return s.progress.ready }

// Client is how others in this process reach the server: without a connection, as system:apiserver, from which nothing
// is withheld.
func (s *Server) Client() *rest.Config { return s.loopback.Config() }
