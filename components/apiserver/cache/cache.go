package cache

import (
	"context"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Cache is one resource: all versions of a kind. All methods are safe for concurrent use. Their errors are API status
// errors: NotFound, AlreadyExists, Conflict, Expired (410), Timeout (the resource version asked for lies ahead),
// BadRequest (an unreadable resource version or continue token), ServiceUnavailable (the resource is being removed).
type Cache struct {
	users
	set           *Set
	kind          *api.Kind
	resource      schema.GroupResource
	keys          keyLayout
	errs          statusErrors
	codec         entryCodec
	formats       map[formatKey]*Format
	indexed       []index
	cacheDisabled bool // reads are never older than the store
	counts        counts
	ownWrites     ownWrites
	stored        storeReader
	state         watchCache
	fresh         freshness
	zipped        runs

	different bool // from the store, at the last comparison; used only by the comparison
}

func newCache(s *Set, kind *api.Kind) *Cache {
	c := &Cache{
		set: s, kind: kind,
		resource: schema.GroupResource{Group: kind.Hub.Group, Resource: kind.Resource},
		keys:     keyLayout{prefix: s.prefix + kind.Prefix + "/", namespaced: kind.Namespaced},
		formats:  makeFormats(kind, s.budget),
	}
	for _, field := range kind.Indexed {
		c.indexed = append(c.indexed, index{field: field, value: fieldOf(kind, field)})
	}
	c.cacheDisabled = s.config.Direct != nil && s.config.Direct(kind)
	c.errs = statusErrors{c.resource, c.keys}
	media := s.config.mediaOf(kind)
	c.codec.kind, c.codec.media, c.codec.parts = kind, media, &s.parts
	c.codec.stored = codec.NewStorage(kind, media)
	c.counts.bookmarks = s.bookmarks.Load()
	c.counts.lists = make([]struct{ total, fetched, returned atomic.Int64 }, len(c.indexed)+1)
	c.ownWrites.set = s
	c.stored = storeReader{store: s.config.Store, codec: &c.codec, errs: c.errs}
	c.state.init(c)
	c.fresh = freshness{readiness: &c.state.readiness, set: s, cacheDisabled: c.cacheDisabled, counts: &c.counts}
	return c
}

// Kind returns the row of the table.
func (c *Cache) Kind() *api.Kind { return c.kind }

// Reread makes of an object that is written what is read from the store.
func (c *Cache) Reread(obj api.Object) { c.codec.reread(obj) }

// Key returns the key of an object; namespace is "" for kinds without.
func (c *Cache) Key(namespace, name string) string { return c.keys.key(namespace, name) }

// WaitReady returns when the cache has its objects.
func (c *Cache) WaitReady(ctx context.Context) error { return c.state.WaitReady(ctx) }

// Ready reports whether the cache has its objects.
func (c *Cache) Ready() bool { return c.state.Ready() }

// AllIn tells whether all objects of a custom resource lie in memory in this version.
func (c *Cache) AllIn(version schema.GroupVersion) bool {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.objects.allIn(version)
}

// Stats is how much there is in a cache.
type Stats struct {
	Objects  int
	Bytes    int64 // in the store
	Revision int64 // at which the cache is known to be what the store was
	Events   int64 // since the cache was made
	Capacity int   // events that are remembered at most
	Direct   bool  // reads are never older than the store: upstream has no cache then
}

// Stats counts what is there now.
func (c *Cache) Stats() Stats { return c.state.stats() }

// Peek returns an entry as the cache has it now, without waiting for anything.
func (c *Cache) Peek(key string) (*Entry, bool) { return c.state.peek(key) }

// PeekList calls yield for the entries of a namespace ("" for all) as the cache has them now, in the order of their
// keys, until it returns false.
func (c *Cache) PeekList(namespace string, yield func(*Entry) bool) {
	s, _ := c.state.snapshotNow()
	if s.items.Len() == 0 {
		return
	}
	prefix := c.keys.scope(namespace)
	s.items.Ascend(&Entry{Key: prefix}, func(e *Entry) bool {
		return strings.HasPrefix(e.Key, prefix) && yield(e)
	})
}
