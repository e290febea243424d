package apiserver

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/internal/health"
)

// progress is how far the start and the end of a server have come.
type progress struct {
	first     chan struct{} // closed when the first objects are there
	ready     chan struct{} // closed when the server has all that it needs
	left      chan struct{} // closed when the cluster has been told that the server goes
	synced    atomic.Bool   // the caches have their objects
	installed atomic.Bool   // all that is served is known
}

func newProgress() *progress {
	return &progress{first: make(chan struct{}), ready: make(chan struct{}), left: make(chan struct{})}
}

// checks are the health checks of a server.
type checks struct {
	*base
	stores   *stores
	rbac     bool // authorizes by it
	progress *progress
	log      *logFlushCheck
}

// hook is upstream's name for something that a server does between its start and being ready, that monitoring may know.
// Here it is done by one of two steps.
type hook struct {
	name string
	step startStep
	of   part
}

// part is something that a server may be without.
type part int

const (
	core               part = iota
	fairnessOn              // priority and fairness
	fairnessOff             // bounds of the requests in flight instead
	hasRBAC                 // authorization by RBAC
	reloadsEncryption       // follows the configuration of encryption
	hasLease                // tells of itself by a Lease
	runsRegistration        // tells the other servers where it is
	proxiesToPeers          // passes requests on to the others
	hasProxyClientCert      // has a client certificate for extension servers
)

func (c *checks) has(p part) bool {
	switch p {
	case fairnessOn:
		return c.config.PriorityAndFairness
	case fairnessOff:
		return !c.config.PriorityAndFairness
	case hasRBAC:
		return c.rbac
	case reloadsEncryption:
		return c.config.Encryption.File != "" && c.config.Encryption.Reload
	case hasLease:
		return c.gates.On(gates.APIServerIdentity)
	case runsRegistration:
		return c.gates.On(gates.UnknownVersionInteroperabilityProxy)
	case proxiesToPeers:
		return c.config.Peers.CAFile != ""
	case hasProxyClientCert:
		return c.config.ProxyClientCert != ""
	}
	return true
}

type startStep int

const (
	filledCaches startStep = iota
	firstObjects
)

// hooks are in upstream's order, as far as there is something here that they are about.
var hooks = []hook{
	{name: "poststarthook/start-apiserver-admission-initializer"},
	{name: "poststarthook/start-encryption-provider-config-automatic-reload", of: reloadsEncryption},
	{name: "poststarthook/generic-apiserver-start-informers"},
	{name: "poststarthook/priority-and-fairness-config-consumer", of: fairnessOn},
	{name: "poststarthook/priority-and-fairness-filter", of: fairnessOn},
	{name: "poststarthook/max-in-flight-filter", of: fairnessOff},
	{name: "poststarthook/storage-object-count-tracker-hook"},
	{name: "poststarthook/start-apiextensions-informers"},
	{name: "poststarthook/start-apiextensions-controllers"},
	{name: "poststarthook/crd-informer-synced"},
	{name: "poststarthook/start-system-namespaces-controller", step: firstObjects},
	{name: "poststarthook/peer-endpoint-reconciler-controller", step: firstObjects, of: runsRegistration},
	{name: "poststarthook/mixed-version-proxy-handler", step: firstObjects, of: proxiesToPeers},
	{name: "poststarthook/local-discovery-cache-sync", of: proxiesToPeers},
	{name: "poststarthook/peer-discovery-workers", step: firstObjects, of: proxiesToPeers},
	{name: "poststarthook/start-cluster-authentication-info-controller", step: firstObjects},
	{name: "poststarthook/start-kube-apiserver-identity-lease-controller", step: firstObjects, of: hasLease},
	{name: "poststarthook/start-kube-apiserver-identity-lease-garbage-collector", step: firstObjects, of: hasLease},
	{name: "poststarthook/storage-readiness"},
	{name: "poststarthook/start-legacy-token-tracking-controller", step: firstObjects},
	{name: "poststarthook/start-service-ip-repair-controllers", step: firstObjects},
	{name: "poststarthook/rbac/bootstrap-roles", step: firstObjects, of: hasRBAC},
	{name: "poststarthook/scheduling/bootstrap-system-priority-classes", step: firstObjects},
	{name: "poststarthook/priority-and-fairness-config-producer", step: firstObjects},
	{name: "poststarthook/bootstrap-controller", step: firstObjects},
	{name: "poststarthook/start-kubernetes-service-cidr-controller", step: firstObjects},
	{name: "poststarthook/aggregator-reload-proxy-client-cert", of: hasProxyClientCert},
	{name: "poststarthook/start-kube-aggregator-informers"},
	{name: "poststarthook/apiservice-status-local-available-controller", step: firstObjects},
	{name: "poststarthook/apiservice-status-remote-available-controller", step: firstObjects},
	{name: "poststarthook/apiservice-registration-controller", step: firstObjects},
	{name: "poststarthook/apiservice-discovery-controller", step: firstObjects},
	{name: "poststarthook/kube-apiserver-autoregistration", step: firstObjects},
	{name: "autoregister-completion", step: firstObjects},
	{name: "poststarthook/apiservice-openapi-controller", step: firstObjects},
	{name: "poststarthook/apiservice-openapiv3-controller", step: firstObjects},
}

// live are those of /livez; what is still being done passes for a while after the start. more come after those of the
// store.
func (c *checks) live(more ...health.Check) []health.Check {
	out := slices.Concat(c.logChecks(), selfChecks(), c.stores.healthChecks(c.config, false), more)
	for _, check := range c.hookChecks() {
		out = append(out, health.Check{Name: check.Name, Probe: func(r *http.Request) error {
			if c.config.Clock.Since(c.made) < c.config.Serving.LivezGrace {
				return nil
			}
			return check.Probe(r)
		}})
	}
	return out
}

// health are those of /healthz.
func (c *checks) health() []health.Check { return c.live(keyChecks(c.stores.keys)...) }

// ready are those of /readyz.
func (c *checks) ready() []health.Check {
	return slices.Concat(c.logChecks(), c.stores.healthChecks(c.config, false), c.stores.healthChecks(c.config, true),
		keyChecks(c.stores.keys), []health.Check{{Name: "informer-sync", Probe: c.cachesSynced}}, c.hookChecks())
}

func (c *checks) logChecks() []health.Check {
	return []health.Check{{Name: "log", Probe: c.log.check}}
}

// selfChecks never fail. By upstream's, monitoring learns that the certificate has expired with which the server's own
// parts connect to it; here they reach it in process, with none that could.
func selfChecks() []health.Check {
	return []health.Check{{Name: "loopback-serving-certificate", Probe: func(*http.Request) error { return nil }}}
}

func (c *checks) hookChecks() []health.Check {
	probes := map[startStep]func(*http.Request) error{filledCaches: c.cachesSynced, firstObjects: c.bootstrapped}
	var out []health.Check
	for _, h := range hooks {
		if c.has(h.of) {
			out = append(out, health.Check{Name: h.name, Probe: probes[h.step]})
		}
	}
	return out
}

func (c *checks) cachesSynced(*http.Request) error {
	if !c.progress.synced.Load() && c.config.Clock.Since(c.made) < c.config.Serving.StorageInitialization {
		return errors.New("the caches are still being filled")
	}
	return nil
}

func (c *checks) bootstrapped(*http.Request) error {
	select {
	case <-c.progress.ready:
		return nil
	default:
		return errors.New("the first objects are still being written")
	}
}
