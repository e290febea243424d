package cache

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// Cache is one resource: all versions of a kind. All methods are safe for concurrent use. Their errors are API status
// errors: NotFound, AlreadyExists, Conflict, Expired (410), Timeout (the resource version asked for lies ahead), BadRequest
// (an unreadable resource version or continue token).
type Cache struct {
	kind     *kinds.Kind
	resource schema.GroupResource
	formats  map[formatKey]*Format
}

// Kind returns the row of the table.
func (c *Cache) Kind() *kinds.Kind { return c.kind }

// Key returns the key of an object; namespace is "" for kinds without.
func (c *Cache) Key(namespace, name string) string { return "" }

// WaitReady returns when the cache has its objects.
func (c *Cache) WaitReady(ctx context.Context) error { return nil }

// Get returns an object: by resourceVersion "" the newest there is, by "0" any that is at hand, else one that is not
// older.
func (c *Cache) Get(ctx context.Context, key, resourceVersion string) (*Entry, error) { return nil, nil }

// List returns the objects that the options choose.
func (c *Cache) List(ctx context.Context, o ListOptions) (*List, error) { return nil, nil }

// Watch begins to watch. The watcher ends with ctx, or when it falls too far behind; it must be closed.
func (c *Cache) Watch(ctx context.Context, o WatchOptions) (*Watcher, error) { return nil, nil }

// Create stores a new object. obj belongs to the cache from then on; its resource version is dropped.
func (c *Cache) Create(ctx context.Context, key string, obj kinds.Object, ttl TTL) (*Entry, error) {
	return nil, nil
}

// Update replaces an object by what mutate makes of it; see Mutate. If that is the same, nothing is written and the
// current entry is returned. ttl may be nil.
func (c *Cache) Update(ctx context.Context, key string, ttl func(kinds.Object) TTL, mutate Mutate) (*Entry, error) {
	return nil, nil
}

// Delete removes an object and returns its last state, at the resource version of its removal. check may refuse, and may
// be called several times; nil allows all.
func (c *Cache) Delete(ctx context.Context, key string, check func(current *Entry) error) (*Entry, error) {
	return nil, nil
}

// Peek returns an entry as the cache has it now, without waiting for anything.
func (c *Cache) Peek(key string) (*Entry, bool) { return nil, false }

// PeekList calls yield for the entries of a namespace ("" for all) as the cache has them now, in the order of their keys.
func (c *Cache) PeekList(namespace string, yield func(*Entry) bool) {}

// Watcher delivers the events of a watch. Next is for one goroutine.
type Watcher struct{}

// Next returns what has happened since the last call, and waits if nothing has. The events are shared: they must not be
// changed. It returns ctx's error when ctx ends, and when the watch is over a status error to be sent to the client:
// Expired (410) if it fell behind.
func (w *Watcher) Next(ctx context.Context) ([]Event, error) { return nil, nil }

// Close ends the watch.
func (w *Watcher) Close() {}

func formatRevision(r int64) string { return strconv.FormatInt(r, 10) }
