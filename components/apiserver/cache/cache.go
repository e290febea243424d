package cache

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/storage"
)

// Cache is one resource: all versions of a kind. All methods are safe for concurrent use. Their errors are API status
// errors: NotFound, AlreadyExists, Conflict, Expired (410), Timeout (the resource version asked for lies ahead),
// BadRequest (an unreadable resource version or continue token), ServiceUnavailable (the resource is being removed).
type Cache struct {
	set           *Set
	kind          *api.Kind
	resource      schema.GroupResource
	prefix        string // of all keys, with a slash
	stored        *serial.Storage
	formats       map[formatKey]*Format
	indexed       []index
	cacheDisabled bool // reads are never older than the store
	counts        counts
	pendingWrites pendingWrites
	puts          atomic.Int64 // objects that were written here
	written       atomic.Int64 // revision of the newest write that was done here
	broken        broken
	zipped        runs
	users         users

	ready  chan struct{} // closed with the first install
	closed chan struct{}

	mu       sync.Mutex
	loading  []storage.Event // what came before the first install; nil afterwards
	loaded   bool
	state    tree
	bytes    int64                       // of what is in state, in the store
	versions map[schema.GroupVersion]int // how much of the state is in which version, if it is of a custom resource
	events   int64                       // seen
	last     int64                       // revision of the last change
	view     *snapshot                   // of state, nil when it has changed since
	kept     []*snapshot
	history  ring
	watchers registry
	sought   Entry // by Peek: has the key alone

	different bool // from the store, at the last comparison; used only by the comparison
}

// tree is the state: entries by key, and by (value, key) for each index.
type tree struct {
	items   *btree.BTreeG[*Entry]
	indexes []*btree.BTreeG[indexed]
}

type index struct {
	field string
	value func(api.Object) string
}

type indexed struct {
	value string
	entry *Entry
}

func newTree(indexes int) tree {
	t := tree{items: btree.NewBTreeGOptions(func(a, b *Entry) bool { return a.Key < b.Key },
		btree.Options{NoLocks: true})}
	for range indexes {
		t.indexes = append(t.indexes, btree.NewBTreeGOptions(func(a, b indexed) bool {
			if a.value != b.value {
				return a.value < b.value
			}
			return a.entry.Key < b.entry.Key
		}, btree.Options{NoLocks: true}))
	}
	return t
}

func newCache(s *Set, kind *api.Kind) *Cache {
	c := &Cache{
		set: s, kind: kind,
		resource: schema.GroupResource{Group: kind.Hub.Group, Resource: kind.Resource},
		prefix:   s.prefix + kind.Prefix + "/",
		stored:   serial.NewStorage(kind, s.config.mediaOf(kind)),
		formats:  makeFormats(kind, s.budget),
		ready:    make(chan struct{}), closed: make(chan struct{}),
		history: ring{limit: s.config.Events, few: fewEvents}, versions: map[schema.GroupVersion]int{},
	}
	for _, field := range kind.Indexed {
		c.indexed = append(c.indexed, index{field: field, value: fieldOf(kind, field)})
	}
	if c.cacheDisabled = s.config.Direct != nil && s.config.Direct(kind); c.cacheDisabled {
		c.history.few = fewDirect
	}
	c.counts.bookmarks = s.bookmarks.Load()
	c.counts.lists = make([]struct{ total, fetched, returned atomic.Int64 }, len(c.indexed)+1)
	c.state = newTree(len(c.indexed))
	c.watchers.init(len(c.indexed))
	return c
}

// Kind returns the row of the table.
func (c *Cache) Kind() *api.Kind { return c.kind }

// Reread makes of an object that is written what is read from the store.
func (c *Cache) Reread(obj api.Object) {
	c.kind.Reread(obj, c.set.config.mediaOf(c.kind) != runtime.ContentTypeProtobuf)
}

// Key returns the key of an object; namespace is "" for kinds without.
func (c *Cache) Key(namespace, name string) string {
	if c.kind.Namespaced {
		return c.prefix + namespace + "/" + name
	}
	return c.prefix + name
}

// names takes a key apart.
func (c *Cache) names(key string) (namespace, name string) {
	rest := key[len(c.prefix):]
	if !c.kind.Namespaced {
		return "", rest
	}
	namespace, name, _ = strings.Cut(rest, "/")
	return namespace, name
}

// WaitReady returns when the cache has its objects.
func (c *Cache) WaitReady(ctx context.Context) error {
	select {
	case <-c.closed:
		return c.errClosed()
	default:
	}
	select {
	case <-c.ready:
		return nil
	case <-c.closed:
		return c.errClosed()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready reports whether the cache has its objects.
func (c *Cache) Ready() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// read decodes what is stored. What can't be read is logged and remembered as broken.
func (c *Cache) read(kv *storage.KeyValue) *Entry {
	e, err := c.decode(kv)
	if err != nil {
		klog.ErrorS(err, "Failed to read object from the store; reads of it fail", "key", kv.Key, "revision",
			kv.Revision)
		c.broken.add(kv.Key, fault{err, kv.Revision})
		return nil
	}
	c.broken.remove(kv.Key)
	return e
}

func (c *Cache) decode(kv *storage.KeyValue) (*Entry, error) {
	if kv.Unreadable != nil {
		return nil, undecrypted{kv.Unreadable}
	}
	if e := c.takeMade(kv); e != nil {
		return e, nil
	}
	obj, err := c.stored.Decode(kv.Value)
	if bytes.HasPrefix(kv.Value, encrypted) && err != nil {
		return nil, undecrypted{errEncrypted}
	}
	if err != nil {
		c.counts.undecodable.Add(1)
	}
	if err != nil && c.kind.Custom != nil {
		return nil, undecoded{err}
	}
	if err != nil {
		return nil, err
	}
	c.set.parts.Share(obj)
	obj.SetResourceVersion(formatRevision(kv.Revision))
	e := &Entry{Key: kv.Key, Revision: kv.Revision, Object: obj, size: len(kv.Value)}
	if !kv.Stale {
		e.sum = sumOf(kv.Value)
	}
	c.leaveMade(kv, e)
	return e, nil
}

// install replaces the whole state by what a list of all caches found. The watch that begins then brings what has come
// since: what one before it has brought to a cache without a state is not to be looked at, it may be of a store that
// went back.
func (c *Cache) install(content []*Entry, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loading = nil
	c.installLocked(content, revision)
}

// installFirst does so with a list of one cache, then applies what came meanwhile. It does nothing if the cache has a
// state: a list of all caches, which may be newer, was faster.
func (c *Cache) installFirst(content []*Entry, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded {
		c.installLocked(content, revision)
	}
}

func (c *Cache) installLocked(content []*Entry, revision int64) {
	c.state, c.bytes = newTree(len(c.indexed)), 0
	clear(c.versions)
	c.broken.settle()
	c.counts.loads.Add(1)
	c.counts.loaded.Add(int64(len(content)))
	c.pendingWrites.settle()
	for _, e := range content {
		c.state.items.Load(e)
		c.enter(e)
	}
	c.last, c.view, c.kept = revision, nil, nil
	c.history.reset(revision)
	c.watchers.endAll(errExpired("the server has lost its place in the store's history"))
	waiting := c.loading
	c.loading, c.loaded = nil, true
	for i := range waiting {
		if waiting[i].Revision > revision {
			c.change(&waiting[i])
		}
	}
	if !c.Ready() {
		close(c.ready)
	}
}

// apply takes the events of one revision of the store; readers see all of them or none. Revisions come one by one, from
// one goroutine.
func (c *Cache) apply(events ...storage.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded {
		c.loading = append(c.loading, events...)
		return
	}
	if events[0].Revision <= c.last {
		return
	}
	for i := range events {
		c.change(&events[i])
	}
	c.rouseAll()
}

// change is called with c.mu held.
func (c *Cache) change(e *storage.Event) {
	now := &change{revision: e.Revision, at: c.set.config.Clock.Now()}
	if e.Type == storage.Put {
		if now.entry = c.pendingWrites.landed(e); now.entry != nil {
			c.broken.remove(e.Key)
			c.leaveMade(&e.KeyValue, now.entry)
		} else if now.entry = c.read(&e.KeyValue); now.entry == nil {
			c.dropUnreadable(e)
			return
		}
		now.prev, _ = c.state.items.Set(now.entry)
	} else {
		now.prev, _ = c.state.items.Delete(&Entry{Key: e.Key})
		if now.prev == nil {
			c.broken.remove(e.Key)
			return
		}
	}
	if now.prev != nil {
		c.leave(now.prev)
	}
	if now.entry != nil {
		c.enter(now.entry)
	}
	if c.view != nil {
		c.view.until = e.Revision
		c.view = nil
	}
	c.last = e.Revision
	c.events++
	c.history.append(now)
	c.dispatch(now)
}

// dropUnreadable removes an object that was overwritten by an unreadable value. There is no event for that, so watches
// can't be resumed from an earlier revision. It is called with c.mu held.
func (c *Cache) dropUnreadable(e *storage.Event) {
	if prev, ok := c.state.items.Delete(&Entry{Key: e.Key}); ok {
		c.leave(prev)
	}
	if c.view != nil {
		c.view.until = e.Revision
		c.view = nil
	}
	c.last = e.Revision
	c.history.reset(e.Revision)
	c.watchers.endAll(c.broken.at(e.Key))
}

// forget drops what is remembered for resumed watches and paginated lists after they took too long.
func (c *Cache) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.trim(now, quietTime)
	c.kept = slices.DeleteFunc(c.kept, func(s *snapshot) bool { return now.Sub(s.last) > keptTime })
}

// enter takes an entry that was put into the state into all that is derived from it; leave takes it out.
func (c *Cache) enter(e *Entry) {
	c.bytes += int64(e.size)
	c.count(e, 1)
	for i := range c.indexed {
		c.state.indexes[i].Set(indexed{c.indexed[i].value(e.Object), e})
	}
}

func (c *Cache) leave(e *Entry) {
	c.bytes -= int64(e.size)
	c.count(e, -1)
	for i := range c.indexed {
		c.state.indexes[i].Delete(indexed{c.indexed[i].value(e.Object), e})
	}
}

// count keeps account of versions. Only custom resources lie in memory in several.
func (c *Cache) count(e *Entry, by int) {
	if c.kind.Custom != nil {
		c.versions[e.Object.GetObjectKind().GroupVersionKind().GroupVersion()] += by
	}
}

// AllIn tells whether all objects of a custom resource lie in memory in this version.
func (c *Cache) AllIn(version schema.GroupVersion) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.versions[version] == c.state.items.Len()
}

func (c *Cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return
	default:
	}
	close(c.closed)
	c.watchers.endAll(c.errClosed())
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
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Objects: c.state.items.Len(), Bytes: c.bytes, Revision: c.revisionLocked(), Events: c.events,
		Capacity: c.history.limit, Direct: c.cacheDisabled}
}

// Peek returns an entry as the cache has it now, without waiting for anything.
func (c *Cache) Peek(key string) (*Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sought.Key = key
	return c.state.items.Get(&c.sought)
}

// PeekList calls yield for the entries of a namespace ("" for all) as the cache has them now, in the order of their
// keys, until it returns false.
func (c *Cache) PeekList(namespace string, yield func(*Entry) bool) {
	s, _ := c.snapshotNow()
	if s.items.Len() == 0 {
		return
	}
	prefix := c.scope(namespace)
	s.items.Ascend(&Entry{Key: prefix}, func(e *Entry) bool {
		return strings.HasPrefix(e.Key, prefix) && yield(e)
	})
}

// scope is the prefix of the keys of a namespace, or of all.
func (c *Cache) scope(namespace string) string {
	if namespace == "" || !c.kind.Namespaced {
		return c.prefix
	}
	return c.prefix + namespace + "/"
}
