package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/etcd"
	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/internal/health"
)

// place is a store, and the caches of the resources that are kept there. The first is for all that no other is for. Resource
// versions of different places have nothing to do with each other.
type place struct {
	servers   []string
	resources []schema.GroupResource // none for the first
	opened    storage.Store          // as it is, and
	store     storage.Store          // encrypted and measured
	caches    *cache.Set

	replaceable func(schema.GroupResource) bool // as of cache.Config
}

// placeOf is where a resource is kept that has any of these names.
func (s *Server) placeOf(names ...schema.GroupResource) *place {
	for _, p := range s.places[1:] {
		if slices.ContainsFunc(names, func(name schema.GroupResource) bool { return slices.Contains(p.resources, name) }) {
			return p
		}
	}
	return s.places[0]
}

// placeOfKind is where objects of a kind are, whichever of its groups is named.
func (s *Server) placeOfKind(kind *kinds.Kind) *place {
	names := []schema.GroupResource{{Group: kind.Hub.Group, Resource: kind.Resource}}
	for i := range kind.Versions {
		names = append(names, schema.GroupResource{Group: kind.Versions[i].Group, Resource: kind.Resource})
	}
	return s.placeOf(names...)
}

func (s *Server) openEtcd(servers []string, metrics *etcd.Metrics) (storage.Store, error) {
	return etcd.New(etcd.Config{
		Endpoints: servers,
		CAFile:    s.config.EtcdCAFile, CertFile: s.config.EtcdCertFile, KeyFile: s.config.EtcdKeyFile,
		LeaseReuse: s.config.EtcdLeaseReuse,
		Tracing:    s.tracing,
		Dial:       s.egress.Etcd(),
		Metrics:    metrics,
	})
}

// placeChecks ask the stores, each on its own: whether they are alive, or whether they are ready.
func (s *Server) placeChecks(ready bool) []health.Check {
	name, override, timeout := "etcd", "etcd-override-%d", s.config.EtcdHealthTimeout
	if ready {
		name, override, timeout = "etcd-readiness", "etcd-override-readiness-%d", s.config.EtcdReadyTimeout
	}
	checks := []health.Check{{Name: name, Group: name, Probe: s.places[0].answers(timeout)}}
	for i, p := range s.places[1:] {
		checks = append(checks, health.Check{Name: fmt.Sprintf(override, i), Group: name, Probe: p.answers(timeout)})
	}
	return checks
}

// answers fails if the store doesn't answer in time.
func (p *place) answers(timeout time.Duration) func(*http.Request) error {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		if _, err := p.store.Revision(ctx); err != nil {
			return fmt.Errorf("error getting data from etcd: %w", err)
		}
		return nil
	}
}

// each does something with every place, until it fails.
func (s *Server) each(do func(*place) error) error {
	for _, p := range s.places {
		if err := do(p); err != nil {
			return err
		}
	}
	return nil
}

// openStore opens the stores; nothing is asked of them yet.
func (s *Server) openStore() error {
	metrics, err := etcd.NewMetrics(s.registry)
	if err != nil {
		return err
	}
	first := &place{servers: s.config.EtcdServers}
	switch {
	case s.config.Store != nil:
		first.opened = s.config.Store
	case s.config.Storage == options.StorageMemory:
		// The time in microseconds is beyond every revision that a former server gave out: none writes that fast.
		first.opened = memory.NewAt(s.config.Clock, s.config.Clock.Now().UnixMicro())
	default:
		if first.opened, err = s.openEtcd(s.config.EtcdServers, metrics); err != nil {
			return err
		}
	}
	first.store = first.opened
	s.places = []*place{first}
	others, err := s.config.EtcdOverrides()
	if err != nil {
		return err
	}
	for _, o := range others {
		p := &place{servers: o.Servers, resources: o.Resources}
		if p.opened, err = s.openEtcd(p.servers, metrics); err != nil {
			return fmt.Errorf("--etcd-servers-overrides: %w", err)
		}
		p.store = p.opened
		s.places = append(s.places, p)
	}
	return nil
}

func (s *Server) closeStore() {
	s.keys.Close()
	if s.config.Store == nil {
		_ = s.each(func(p *place) error { return p.store.Close() })
	}
}

// cacheDisabled tells of which kinds reads are never older than the store.
func (s *Server) cacheDisabled(kind *kinds.Kind) bool {
	return s.config.CacheDisabled(schema.GroupResource{Group: kind.Hub.Group, Resource: kind.Resource})
}

// makeCaches makes the caches over the stores.
func (s *Server) makeCaches() error {
	return s.each(func(p *place) (err error) {
		config := cache.Config{
			Store: p.store, Prefix: s.config.EtcdPrefix, Encodings: s.config.EncodingMemory, Clock: s.config.Clock,
			Direct: s.cacheDisabled, Media: s.config.StorageMediaType, CBOR: s.gates.On(gates.CBORServingAndStorage),
			Replaceable: p.replaceable, NoChecks: !s.gates.On(gates.DetectCacheInconsistency),
		}
		if store, ok := p.opened.(*etcd.Store); ok {
			config.Progress = store.TellsProgress
		}
		p.caches, err = cache.NewSet(config)
		return err
	})
}

// run follows the store.
func (p *place) run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	if store, ok := p.opened.(*etcd.Store); ok {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		asking.Go(func() { store.CheckProgress(ctx) })
	}
	return p.caches.Run(ctx)
}
