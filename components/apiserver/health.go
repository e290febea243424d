package apiserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"quintet.dev/quintet/components/apiserver/server"
)

// hooks are upstream's names for what a server does between its start and being ready, that monitoring may know. Here it is
// done by two steps: filling the caches, and writing the first objects.
var hooks = struct{ filling, writing []string }{
	filling: []string{
		"start-apiserver-admission-initializer", "generic-apiserver-start-informers", "storage-object-count-tracker-hook",
		"start-apiextensions-informers", "start-apiextensions-controllers", "crd-informer-synced", "storage-readiness",
		"start-kube-aggregator-informers", "apiservice-registration-controller", "apiservice-discovery-controller",
	},
	writing: []string{
		"start-system-namespaces-controller", "start-cluster-authentication-info-controller",
		"start-kube-apiserver-identity-lease-controller", "start-legacy-token-tracking-controller", "rbac/bootstrap-roles",
		"scheduling/bootstrap-system-priority-classes", "bootstrap-controller", "start-kubernetes-service-cidr-controller",
		"kube-apiserver-autoregistration",
	},
}

const fairnessHook = "priority-and-fairness-config-producer"

// liveChecks are those of /livez; what is still being done passes for a while after the start.
func (s *Server) liveChecks() []server.Check {
	checks := []server.Check{{Name: "etcd", Probe: s.storeAnswers(s.config.EtcdHealthTimeout)}}
	for _, c := range s.hookChecks() {
		checks = append(checks, server.Check{Name: c.Name, Probe: func(r *http.Request) error {
			if s.config.Clock.Since(s.made) < s.config.Serving.LivezGrace {
				return nil
			}
			return c.Probe(r)
		}})
	}
	return checks
}

func (s *Server) readyChecks() []server.Check {
	return append([]server.Check{
		{Name: "etcd", Probe: s.storeAnswers(s.config.EtcdHealthTimeout)},
		{Name: "etcd-readiness", Probe: s.storeAnswers(s.config.EtcdReadyTimeout)},
		{Name: "informer-sync", Probe: s.cachesSynced},
	}, s.hookChecks()...)
}

func (s *Server) hookChecks() []server.Check {
	writing := hooks.writing
	if s.config.PriorityAndFairness {
		writing = append(writing[:len(writing):len(writing)], fairnessHook)
	}
	var out []server.Check
	for _, name := range hooks.filling {
		out = append(out, server.Check{Name: "poststarthook/" + name, Probe: s.cachesSynced})
	}
	for _, name := range writing {
		out = append(out, server.Check{Name: "poststarthook/" + name, Probe: s.bootstrapped})
	}
	return out
}

func (s *Server) storeAnswers(timeout time.Duration) func(r *http.Request) error {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		_, err := s.store.Revision(ctx)
		return err
	}
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
