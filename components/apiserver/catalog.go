package apiserver

import (
	"context"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"quintet.dev/quintet/components/apiserver/aggregation"
	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/discovery"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/openapi"
	"quintet.dev/quintet/components/apiserver/registry"
	"quintet.dev/quintet/internal/release"
)

// catalog is what is served now, the kinds of the program and custom resources, and what tells clients of that. It is
// safe for concurrent use.
type catalog struct {
	registry   *kindRegistry
	own        *cache.Set // of custom resources
	discovery  *discovery.Server
	openapi    *openapi.Server
	aggregator *aggregation.Aggregator

	mu     sync.Mutex
	caches map[*api.Kind]*cache.Cache // of the custom resources that are served; replaced, never changed
}

func newCatalog(b *base, s *stores, r *kindRegistry) (*catalog, error) {
	cbor := b.gates.On(gates.CBORServingAndStorage)
	c := &catalog{
		registry: r, own: s.first().caches,
		discovery: discovery.New(discovery.Config{
			Address: b.addresses.endpoint, Within: b.services.within(), Hashes: b.gates.On(gates.StorageVersionHash),
			CBOR: cbor, NoCompression: !b.gates.On(gates.APIResponseCompression), ID: b.id,
		}),
		openapi: openapi.New(release.Get().GitVersion, openapi.Form{
			CBOR: cbor, NoEnums: !b.gates.On(gates.OpenAPIEnums),
		}),
	}
	if err := c.discovery.Register(b.registry); err != nil {
		return nil, err
	}
	var err error
	if c.aggregator, err = newAggregator(b, r, c.discovery, c.openapi); err != nil {
		return nil, err
	}
	caches := &metrics.Caches{List: c.cacheStats, NoCounts: b.config.CountPeriod < 0}
	if err := b.registry.Register(caches); err != nil {
		return nil, err
	}
	return c, c.publish(nil, nil)
}

// newAggregator makes what lets others serve group versions, and what tells of theirs and of ours.
func newAggregator(b *base, r *kindRegistry, d *discovery.Server, o *openapi.Server) (*aggregation.Aggregator, error) {
	return aggregation.New(aggregation.Config{
		Objects: r.Local, Whole: registry.StrictReader{Local: r.Local}, Services: newServiceResolver(b, r),
		Writers: concurrentWrites(b), Clock: b.config.Clock, Library: b.library,
		Dial: b.egress.Cluster(), Traced: propagateTraces(b.tracing), PassRedirects: b.config.PassRedirects,
		NoUIDs:         !b.gates.On(gates.RemoteRequestHeaderUID),
		ClientCertFile: b.config.ProxyClientCert, ClientKeyFile: b.config.ProxyClientKey,
		Changed: func(v aggregation.View) {
			d.Arrange(v.Services, v.Own, v.Removed, v.Elsewhere)
			o.SetElsewhere(v.Sources)
		},
	})
}

// served are all rows that are served now: those of the program, and of custom resources.
func (c *catalog) served() []*api.Kind {
	rows := make([]*api.Kind, 0, len(c.registry.table))
	for _, r := range c.registry.table {
		rows = append(rows, r.Kind)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.AppendSeq(rows, maps.Keys(c.caches))
}

// resourceFor finds the resource of a kind among all that are served now, here or elsewhere.
func (c *catalog) resourceFor(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	gv := kind.GroupVersion()
	serves := func(v api.Version) bool { return v.GroupVersion == gv && !v.Unserved }
	for _, row := range c.served() {
		if row.Name == kind.Kind && slices.ContainsFunc(row.Versions, serves) {
			return gv.WithResource(row.Resource), nil
		}
	}
	if elsewhere := c.aggregator.Elsewhere()[gv]; elsewhere != nil {
		for _, r := range elsewhere.Resources {
			if r.ResponseKind != nil && r.ResponseKind.Kind == kind.Kind {
				return gv.WithResource(r.Resource), nil
			}
		}
	}
	return schema.GroupVersionResource{}, &meta.NoKindMatchError{
		GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version},
	}
}

// install serves these rows beside the built-in kinds, and no others; serve does so to clients. Discovery tells of a
// resource once it can be used.
func (c *catalog) install(
	ctx context.Context, rows []*api.Kind, defined []schema.GroupVersion, serve func([]registry.Resource),
) error {
	all := rows
	rows = slices.DeleteFunc(slices.Clone(rows), c.isOutOfReach)
	before, now := c.caches, make(map[*api.Kind]*cache.Cache, len(rows))
	resources := make([]registry.Resource, len(rows))
	for i, row := range rows {
		kept := before[row]
		if kept == nil {
			kept = c.own.Add(row)
		}
		now[row] = kept
		resources[i] = registry.Resource{Kind: row, Cache: kept}
	}
	c.mu.Lock()
	c.caches = now
	c.mu.Unlock()
	c.registry.Install(resources)
	serve(resources)
	for row, gone := range before {
		if now[row] == nil {
			c.own.Remove(gone)
		}
	}
	for _, kept := range now {
		if err := kept.WaitReady(ctx); err != nil {
			return err
		}
	}
	return c.publish(all, defined)
}

// publish makes discovery and OpenAPI tell of the built-in kinds and of these, and APIServices of what is defined.
func (c *catalog) publish(rows []*api.Kind, defined []schema.GroupVersion) error {
	table := make([]*api.Kind, 0, len(c.registry.table)+len(rows))
	for _, r := range c.registry.table {
		table = append(table, r.Kind)
	}
	var onlyV2 []*api.Kind
	for _, row := range rows {
		if !row.Custom.Established() {
			continue
		}
		discoverable, within := c.discoverable(row)
		table = append(table, discoverable)
		if within != nil {
			onlyV2 = append(onlyV2, within)
		}
	}
	c.discovery.Set(table)
	c.openapi.Set(table, onlyV2)
	return c.aggregator.Serve(table, defined)
}

// discoverable is a custom resource as discovery and OpenAPI tell of it. Upstream tells of those that can't be asked
// for, too, in the versions that the program doesn't have; in those that it has, which are within, OpenAPI v2 does.
func (c *catalog) discoverable(row *api.Kind) (out, within *api.Kind) {
	if !c.isOutOfReach(row) {
		return row, nil
	}
	in := func(own bool) *api.Kind {
		copied := *row
		copied.Versions = slices.Clone(row.Versions)
		for i := range copied.Versions {
			v := &copied.Versions[i]
			isOwn := c.hasOwn(func(own schema.GroupVersion) bool { return own == v.GroupVersion })
			v.Unserved = v.Unserved || own != isOwn
		}
		return &copied
	}
	return in(false), in(true)
}

// isOutOfReach reports whether a custom resource can't be asked for, as its group is one of the program's.
func (c *catalog) isOutOfReach(row *api.Kind) bool {
	return c.hasOwn(func(v schema.GroupVersion) bool { return v.Group == row.Hub.Group })
}

// hasOwn reports whether the program's kinds have such a version.
func (c *catalog) hasOwn(such func(schema.GroupVersion) bool) bool {
	served := func(v api.Version) bool { return such(v.GroupVersion) && !v.Unserved }
	return slices.ContainsFunc(c.registry.table, func(r registry.Resource) bool {
		return slices.ContainsFunc(r.Kind.Versions, served)
	})
}

// shadows reports whether a custom resource is stored where a built-in kind is.
func (c *catalog) shadows(row *api.Kind) bool {
	return slices.ContainsFunc(c.registry.table, func(r registry.Resource) bool { return r.Kind.Prefix == row.Prefix })
}

// customCache is the cache of a custom resource, nil where that isn't served.
func (c *catalog) customCache(is func(*api.Kind) bool) *cache.Cache {
	c.mu.Lock()
	defer c.mu.Unlock()
	for row, kept := range c.caches {
		if is(row) {
			return kept
		}
	}
	return nil
}

// listCustom reads all objects of a row as they are in the store now.
func (c *catalog) listCustom(ctx context.Context, row *api.Kind) ([]api.Object, error) {
	if c.isOutOfReach(row) {
		return nil, nil // it was never served
	}
	kept := c.customCache(func(k *api.Kind) bool { return k.Prefix == row.Prefix })
	if kept == nil {
		return nil, apierrors.NewServiceUnavailable(row.Resource + "." + row.Hub.Group + " is not served")
	}
	l, err := kept.List(ctx, cache.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := make([]api.Object, len(l.Entries))
	for i, e := range l.Entries {
		out[i] = e.Object
	}
	return out, nil
}

// convertCustom asks for the other versions of objects when they are written, so that these can be read while nothing
// is there that converts. What fails is tried again by its readers.
func (c *catalog) convertCustom(ctx context.Context, row *api.Kind) {
	for ctx.Err() == nil {
		kept := c.customCache(func(k *api.Kind) bool { return k == row })
		if kept == nil || followCustom(ctx, kept, row) != nil {
			return
		}
	}
}

// followCustom returns nil when it fell behind.
func followCustom(ctx context.Context, c *cache.Cache, row *api.Kind) error {
	w, err := c.Watch(ctx, cache.WatchOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		batch, err := w.Next(ctx)
		switch {
		case apierrors.IsResourceExpired(err):
			return nil
		case err != nil:
			return err
		}
		for _, event := range batch {
			if event.Type != cache.Added && event.Type != cache.Modified {
				continue
			}
			for i := range row.Versions {
				if v := &row.Versions[i]; !v.Unserved {
					_, _ = event.Entry.In(row, v)
				}
			}
		}
	}
}

// listSize tells how large the list of a resource is, by "resource.group".
func (c *catalog) listSize(resource string) (storage.Stats, error) {
	kept := c.cacheOf(schema.ParseGroupResource(resource))
	if kept == nil {
		return storage.Stats{}, flowrequest.ObjectCountNotFoundErr
	}
	held := kept.Stats()
	stats := storage.Stats{ObjectCount: int64(held.Objects)}
	if held.Objects > 0 {
		stats.EstimatedAverageObjectSizeBytes = held.Bytes / int64(held.Objects)
	}
	return stats, nil
}

// cacheOf finds the cache of a resource in one of its groups, or nil.
func (c *catalog) cacheOf(resource schema.GroupResource) *cache.Cache {
	for _, r := range c.registry.table {
		if r.Kind.Resource != resource.Resource || r.Cache == nil {
			continue
		}
		for i := range r.Kind.Versions {
			if r.Kind.Versions[i].Group == resource.Group {
				return r.Cache
			}
		}
	}
	return c.customCache(func(row *api.Kind) bool {
		return row.Resource == resource.Resource && row.Hub.Group == resource.Group
	})
}

// cacheStats tells metrics of the caches of all that is stored.
func (c *catalog) cacheStats() []metrics.CacheStats {
	var out []metrics.CacheStats
	add := func(kind *api.Kind, c *cache.Cache) {
		if kind.Virtual() {
			return // nothing of it is stored
		}
		stats := c.Stats()
		out = append(out, metrics.CacheStats{
			Resource: kind.Hub.WithResource(kind.Resource).GroupResource(), Objects: stats.Objects, Bytes: stats.Bytes,
			Revision: stats.Revision, Events: stats.Events, Capacity: stats.Capacity,
			Direct: stats.Direct, Counts: c.Counts(),
		})
	}
	for _, r := range c.registry.table {
		if r.Cache != nil {
			add(r.Kind, r.Cache)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for kind, kept := range c.caches {
		add(kind, kept)
	}
	return out
}
