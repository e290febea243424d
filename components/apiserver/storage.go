package apiserver

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/encryption"
	"quintet.dev/quintet/components/apiserver/storage/etcd"
	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/internal/health"
)

// stores are where objects are kept, with the caches over them. The first backend is for all that no other is for.
type stores struct {
	backends []*backend
	keys     *encryption.Keys // of values; nil if they lie there open
	sizes    *metrics.Sizes
}

// backend is a store, and the caches of the resources that are kept there. Resource versions of different backends have
// nothing to do with each other.
type backend struct {
	openedStore
	store  storage.Store // the opened one, encrypted and measured
	caches *cache.Set
}

// openedStore is a store as it is, and the resources that it is for: none is all.
type openedStore struct {
	opened    storage.Store
	resources []schema.GroupResource
}

// newStores opens the stores of the rows; nothing is asked of them yet.
func newStores(b *base, rows []*api.Kind, undo *cleanup) (*stores, error) {
	opened, err := openStores(b, undo)
	if err != nil {
		return nil, err
	}
	keys, err := loadKeys(b)
	if err != nil {
		return nil, err
	}
	undo.add(keys.Close)
	s := &stores{keys: keys, sizes: &metrics.Sizes{}}
	resourceOf := resourcesByKey(b.config.EtcdPrefix, rows)
	calls := metrics.NewCalls(b.registry, resourceOf)
	for _, o := range opened {
		store, replaceable := o.opened, (func(schema.GroupResource) bool)(nil)
		if keys != nil {
			encrypted := encryption.NewStore(store, keys.Transformers(), resourceOf)
			if store = encrypted; b.config.Encryption.Reload {
				replaceable = encrypted.Encrypted
			}
		}
		added, err := newBackend(b, o, calls.Of(store), replaceable)
		if err != nil {
			return nil, err
		}
		s.backends = append(s.backends, added)
	}
	return s, b.registry.Register(s.sizes)
}

// openStores opens the stores that the configuration names.
func openStores(b *base, undo *cleanup) ([]openedStore, error) {
	measured, err := etcd.NewMetrics(b.registry)
	if err != nil {
		return nil, err
	}
	first, err := openFirst(b, measured, undo)
	if err != nil {
		return nil, err
	}
	opened := []openedStore{{opened: first}}
	overrides, err := b.config.EtcdOverrides()
	if err != nil {
		return nil, err
	}
	for _, o := range overrides {
		store, err := openEtcd(b, o.Servers, measured, undo)
		if err != nil {
			return nil, fmt.Errorf("--etcd-servers-overrides: %w", err)
		}
		opened = append(opened, openedStore{opened: store, resources: o.Resources})
	}
	return opened, nil
}

func openFirst(b *base, measured *etcd.Metrics, undo *cleanup) (storage.Store, error) {
	switch {
	case b.config.Store != nil:
		return b.config.Store, nil
	case b.config.Storage == options.StorageMemory:
		// The time in microseconds is beyond every revision that a former server gave out: none writes that fast.
		store := memory.NewAt(b.config.Clock, b.config.Clock.Now().UnixMicro())
		undo.add(func() { _ = store.Close() })
		return store, nil
	}
	return openEtcd(b, b.config.EtcdServers, measured, undo)
}

func openEtcd(b *base, servers []string, measured *etcd.Metrics, undo *cleanup) (storage.Store, error) {
	store, err := etcd.New(etcd.Config{
		Endpoints: servers,
		CAFile:    b.config.EtcdCAFile, CertFile: b.config.EtcdCertFile, KeyFile: b.config.EtcdKeyFile,
		LeaseReuse: b.config.EtcdLeaseReuse,
		Tracing:    b.tracing,
		Dial:       b.egress.Etcd(),
		Metrics:    measured,
	})
	if err != nil {
		return nil, err
	}
	undo.add(func() { _ = store.Close() })
	return store, nil
}

// newBackend makes the caches over a store.
func newBackend(
	b *base, opened openedStore, store storage.Store, replaceable func(schema.GroupResource) bool,
) (*backend, error) {
	config := cache.Config{
		Store: store, Prefix: b.config.EtcdPrefix, Encodings: b.config.EncodingMemory, Clock: b.config.Clock,
		Direct: func(kind *api.Kind) bool {
			return b.config.CacheDisabled(schema.GroupResource{Group: kind.Hub.Group, Resource: kind.Resource})
		},
		Media: b.config.StorageMediaType, CBOR: b.gates.On(gates.CBORServingAndStorage),
		Replaceable: replaceable, NoChecks: !b.gates.On(gates.DetectCacheInconsistency),
	}
	if etcd, ok := opened.opened.(*etcd.Store); ok {
		config.Progress = etcd.TellsProgress
	}
	caches, err := cache.NewSet(config)
	return &backend{openedStore: opened, store: store, caches: caches}, err
}

// close frees the stores, but for one that the caller of New gave.
func (s *stores) close(config options.Config) {
	s.keys.Close()
	if config.Store == nil {
		for _, b := range s.backends {
			_ = b.store.Close()
		}
	}
}

func (s *stores) first() *backend { return s.backends[0] }

// of is where a resource is kept that has any of these names.
func (s *stores) of(names ...schema.GroupResource) *backend {
	for _, b := range s.backends[1:] {
		named := func(name schema.GroupResource) bool { return slices.Contains(b.resources, name) }
		if slices.ContainsFunc(names, named) {
			return b
		}
	}
	return s.first()
}

// ofKind is where objects of a kind are, whichever of its groups is named.
func (s *stores) ofKind(kind *api.Kind) *backend {
	names := []schema.GroupResource{{Group: kind.Hub.Group, Resource: kind.Resource}}
	for i := range kind.Versions {
		names = append(names, schema.GroupResource{Group: kind.Versions[i].Group, Resource: kind.Resource})
	}
	return s.of(names...)
}

// nodePorts is the store of the node ports that Services have taken, and their key.
func (s *stores) nodePorts(prefix string) (storage.Store, string) {
	return s.of(corev1.Resource("servicenodeportallocations")).store, prefix + "/ranges/servicenodeports"
}

// waitReady returns when the caches are filled.
func (s *stores) waitReady(ctx context.Context) error {
	for _, b := range s.backends {
		if err := b.caches.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// catchUp returns when the caches have what is stored now.
func (s *stores) catchUp(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, b := range s.backends {
		group.Go(func() error { return b.caches.CatchUp(ctx) })
	}
	return group.Wait()
}

// ask fails if the first store doesn't answer.
func (s *stores) ask(ctx context.Context) error {
	_, err := s.first().store.Revision(ctx)
	return err
}

// healthChecks ask the stores, each on its own: whether they are alive, or whether they are ready.
func (s *stores) healthChecks(config options.Config, ready bool) []health.Check {
	name, override, timeout := "etcd", "etcd-override-%d", config.EtcdHealthTimeout
	if ready {
		name, override, timeout = "etcd-readiness", "etcd-override-readiness-%d", config.EtcdReadyTimeout
	}
	out := []health.Check{{Name: name, Group: name, Probe: s.first().answers(timeout)}}
	for i, b := range s.backends[1:] {
		out = append(out, health.Check{Name: fmt.Sprintf(override, i), Group: name, Probe: b.answers(timeout)})
	}
	return out
}

// answers fails if the store doesn't answer in time.
func (b *backend) answers(timeout time.Duration) func(*http.Request) error {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		if _, err := b.store.Revision(ctx); err != nil {
			return fmt.Errorf("error getting data from etcd: %w", err)
		}
		return nil
	}
}

// run follows the store.
func (b *backend) run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	if store, ok := b.opened.(*etcd.Store); ok {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		asking.Go(func() { store.CheckProgress(ctx) })
	}
	return b.caches.Run(ctx)
}

// run follows all stores in a group that ctx ends.
func (s *stores) run(ctx context.Context, group *errgroup.Group) {
	for _, b := range s.backends {
		group.Go(func() error { return b.run(ctx) })
	}
}

// sizeTimeout bounds the question for the size of etcd.
const sizeTimeout = 10 * time.Second

// watchSize asks etcd from time to time how large it is, until ctx ends.
func (s *stores) watchSize(ctx context.Context, config options.Config) error {
	if _, ok := s.first().opened.(*etcd.Store); !ok || config.EtcdSizePeriod < 0 {
		return nil
	}
	ticker := config.Clock.NewTicker(config.EtcdSizePeriod)
	defer ticker.Stop()
	for {
		sizes, members := map[string]int64{}, map[string]int64{}
		for i, b := range s.backends {
			asking, cancel := context.WithTimeout(ctx, sizeTimeout)
			size := b.opened.(*etcd.Store).Size(asking)
			cancel()
			if size.Bytes >= 0 {
				sizes["etcd-"+strconv.Itoa(i)] = size.Bytes // upstream's name
			}
			maps.Copy(members, size.Members)
		}
		s.sizes.Set(sizes, members)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}
