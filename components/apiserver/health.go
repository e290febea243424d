package apiserver

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/internal/health"
)

// hook is upstream's name for something that a server does between its start and being ready, that monitoring may know. Here
// it is done by one of two steps.
type hook struct {
	name string
	step step
	of   part
}

// part is something that a server may be without.
type part int

const (
	core        part = iota
	fairnessOn       // priority and fairness
	fairnessOff      // bounds of the requests in flight instead
	byRoles          // authorization by RBAC
	reloading        // follows the configuration of encryption
	identified       // tells of itself by a Lease
	known            // tells the other servers where it is
	passingOn        // passes requests on to the others
	vouching         // has a client certificate for extension servers
)

func (s *Server) has(p part) bool {
	switch p {
	case fairnessOn:
		return s.config.PriorityAndFairness
	case fairnessOff:
		return !s.config.PriorityAndFairness
	case byRoles:
		return s.authz.HasRBAC()
	case reloading:
		return s.config.Encryption.File != "" && s.config.Encryption.Reload
	case identified:
		return s.gates.On(gates.APIServerIdentity)
	case known:
		return s.gates.On(gates.UnknownVersionInteroperabilityProxy)
	case passingOn:
		return s.config.Peers.CAFile != ""
	case vouching:
		return s.config.ProxyClientCert != ""
	}
	return true
}

type step int

const (
	filling step = iota // the caches
	writing             // the first objects
)

// hooks are in upstream's order, as far as there is something here that they are about.
var hooks = []hook{
	{name: "poststarthook/start-apiserver-admission-initializer"},
	{name: "poststarthook/start-encryption-provider-config-automatic-reload", of: reloading},
	{name: "poststarthook/generic-apiserver-start-informers"},
	{name: "poststarthook/priority-and-fairness-config-consumer", of: fairnessOn},
	{name: "poststarthook/priority-and-fairness-filter", of: fairnessOn},
	{name: "poststarthook/max-in-flight-filter", of: fairnessOff},
	{name: "poststarthook/storage-object-count-tracker-hook"},
	{name: "poststarthook/start-apiextensions-informers"},
	{name: "poststarthook/start-apiextensions-controllers"},
	{name: "poststarthook/crd-informer-synced"},
	{name: "poststarthook/start-system-namespaces-controller", step: writing},
	{name: "poststarthook/peer-endpoint-reconciler-controller", step: writing, of: known},
	{name: "poststarthook/mixed-version-proxy-handler", step: writing, of: passingOn},
	{name: "poststarthook/local-discovery-cache-sync", of: passingOn},
	{name: "poststarthook/peer-discovery-workers", step: writing, of: passingOn},
	{name: "poststarthook/start-cluster-authentication-info-controller", step: writing},
	{name: "poststarthook/start-kube-apiserver-identity-lease-controller", step: writing, of: identified},
	{name: "poststarthook/start-kube-apiserver-identity-lease-garbage-collector", step: writing, of: identified},
	{name: "poststarthook/storage-readiness"},
	{name: "poststarthook/start-legacy-token-tracking-controller", step: writing},
	{name: "poststarthook/start-service-ip-repair-controllers", step: writing},
	{name: "poststarthook/rbac/bootstrap-roles", step: writing, of: byRoles},
	{name: "poststarthook/scheduling/bootstrap-system-priority-classes", step: writing},
	{name: "poststarthook/priority-and-fairness-config-producer", step: writing},
	{name: "poststarthook/bootstrap-controller", step: writing},
	{name: "poststarthook/start-kubernetes-service-cidr-controller", step: writing},
	{name: "poststarthook/aggregator-reload-proxy-client-cert", of: vouching},
	{name: "poststarthook/start-kube-aggregator-informers"},
	{name: "poststarthook/apiservice-status-local-available-controller", step: writing},
	{name: "poststarthook/apiservice-status-remote-available-controller", step: writing},
	{name: "poststarthook/apiservice-registration-controller", step: writing},
	{name: "poststarthook/apiservice-discovery-controller", step: writing},
	{name: "poststarthook/kube-apiserver-autoregistration", step: writing},
	{name: "autoregister-completion", step: writing},
	{name: "poststarthook/apiservice-openapi-controller", step: writing},
	{name: "poststarthook/apiservice-openapiv3-controller", step: writing},
}

// liveChecks are those of /livez; what is still being done passes for a while after the start. more come after those of the store.
func (s *Server) liveChecks(more ...health.Check) []health.Check {
	checks := slices.Concat(s.logChecks(), s.selfChecks(), s.placeChecks(false), more)
	for _, c := range s.hookChecks() {
		checks = append(checks, health.Check{Name: c.Name, Probe: func(r *http.Request) error {
			if s.config.Clock.Since(s.made) < s.config.Serving.LivezGrace {
				return nil
			}
			return c.Probe(r)
		}})
	}
	return checks
}

func (s *Server) logChecks() []health.Check {
	return []health.Check{{Name: "log", Probe: s.logged.check}}
}

// selfChecks never fail. By upstream's, monitoring learns that the certificate has expired with which the server's own parts connect to
// it; here they reach it in process, with none that could.
func (s *Server) selfChecks() []health.Check {
	return []health.Check{{Name: "loopback-serving-certificate", Probe: func(*http.Request) error { return nil }}}
}

func (s *Server) readyChecks() []health.Check {
	return slices.Concat(s.logChecks(), s.placeChecks(false), s.placeChecks(true), s.keyChecks(),
		[]health.Check{{Name: "informer-sync", Probe: s.cachesSynced}}, s.hookChecks())
}

func (s *Server) hookChecks() []health.Check {
	probes := map[step]func(*http.Request) error{filling: s.cachesSynced, writing: s.bootstrapped}
	var out []health.Check
	for _, h := range hooks {
		if s.has(h.of) {
			out = append(out, health.Check{Name: h.name, Probe: probes[h.step]})
		}
	}
	return out
}

// askStore fails if the store doesn't answer.
func (s *Server) askStore(ctx context.Context) error {
	_, err := s.places[0].store.Revision(ctx)
	return err
}

func (s *Server) cachesSynced(*http.Request) error {
	if !s.synced.Load() && s.config.Clock.Since(s.made) < s.config.Serving.StorageInitialization {
		return errors.New("the caches are still being filled")
	}
	return nil
}

func (s *Server) bootstrapped(*http.Request) error {
	select {
	case <-s.ready:
		return nil
	default:
		return errors.New("the first objects are still being written")
	}
}
