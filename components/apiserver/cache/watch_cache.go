package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
)

// watchCache is the state of a resource in memory, as the watch of the store tells of it, with a history of its changes
// and those that watch it. All of this changes at once: a reader sees all events of a revision or none, and a watcher
// that joins misses no event and gets none twice.
type watchCache struct {
	readiness
	kind          *api.Kind
	keys          keyLayout
	codec         *entryCodec
	clock         clock.WithTicker
	reached       func() int64 // the revision that all caches have reached
	cacheDisabled bool         // reads are never older than the store
	counts        *counts
	ownWrites     *ownWrites
	broken        broken

	mu       sync.Mutex
	loading  []storage.Event // what came before the first install; nil afterwards
	loaded   bool
	objects  snapshotter
	events   int64 // seen
	history  ring
	watchers indexedWatchers
}

// readiness is whether a cache has its objects already, or no longer.
type readiness struct {
	ready  chan struct{} // closed with the first install
	closed chan struct{}
	errs   statusErrors
}

// WaitReady returns when the cache has its objects.
func (r *readiness) WaitReady(ctx context.Context) error {
	select {
	case <-r.closed:
		return r.errs.closed()
	default:
	}
	select {
	case <-r.ready:
		return nil
	case <-r.closed:
		return r.errs.closed()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready reports whether the cache has its objects.
func (r *readiness) Ready() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// init makes it the state of a cache, which has nothing of it yet.
func (c *watchCache) init(of *Cache) {
	config := &of.set.config
	c.readiness = readiness{ready: make(chan struct{}), closed: make(chan struct{}), errs: of.errs}
	c.kind, c.keys, c.codec, c.clock = of.kind, of.keys, &of.codec, config.Clock
	c.reached, c.cacheDisabled = of.set.Revision, of.cacheDisabled
	c.counts, c.ownWrites = &of.counts, &of.ownWrites
	c.objects.indexedStore = newIndexedStore(of.indexed, of.kind.Custom != nil)
	c.history = ring{limit: config.Events, few: fewEvents}
	if c.cacheDisabled {
		c.history.few = fewDirect
	}
	c.watchers = newIndexedWatchers(of.keys, of.indexed, config.Clock, &c.mu, c.closed)
}

// read decodes what is stored. What can't be read is logged and remembered as broken.
func (c *watchCache) read(kv *storage.KeyValue) *Entry {
	e, err := c.codec.decode(kv)
	if err != nil {
		klog.ErrorS(err, "Failed to read object from the store; reads of it fail", "key", kv.Key, "revision",
			kv.Revision)
		c.broken.add(kv.Key, fault{err, kv.Revision})
		return nil
	}
	c.broken.remove(kv.Key)
	return e
}

// install replaces the whole state by what a list of all caches found. The watch that begins then brings what has come
// since: what one before it has brought to a cache without a state is not to be looked at, it may be of a store that
// went back.
func (c *watchCache) install(content []*Entry, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loading = nil
	c.installLocked(content, revision)
}

// installFirst does so with a list of one cache, then applies what came meanwhile. It does nothing if the cache has a
// state: a list of all caches, which may be newer, was faster.
func (c *watchCache) installFirst(content []*Entry, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded {
		c.installLocked(content, revision)
	}
}

func (c *watchCache) installLocked(content []*Entry, revision int64) {
	c.broken.settle()
	c.counts.loads.Add(1)
	c.counts.loaded.Add(int64(len(content)))
	c.ownWrites.pending.settle()
	c.objects.replace(revision)
	for _, e := range content {
		c.objects.load(e)
	}
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
func (c *watchCache) apply(events ...storage.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded {
		c.loading = append(c.loading, events...)
		return
	}
	if events[0].Revision <= c.objects.last {
		return
	}
	for i := range events {
		c.change(&events[i])
	}
	c.watchers.wakeAll()
}

// change is called with c.mu held.
func (c *watchCache) change(e *storage.Event) {
	now := &change{revision: e.Revision, at: c.clock.Now()}
	if e.Type == storage.Put {
		if now.entry = c.ownWrites.pending.landed(e); now.entry != nil {
			c.broken.remove(e.Key)
			c.codec.leaveMade(&e.KeyValue, now.entry)
		} else if now.entry = c.read(&e.KeyValue); now.entry == nil {
			c.dropUnreadable(e)
			return
		}
		now.prev = c.objects.put(now.entry)
	} else {
		now.prev = c.objects.remove(e.Key)
		if now.prev == nil {
			c.broken.remove(e.Key)
			return
		}
	}
	c.objects.changed(e.Revision)
	c.events++
	c.history.append(now)
	c.watchers.dispatch(now)
}

// dropUnreadable removes an object that was overwritten by an unreadable value. There is no event for that, so watches
// can't be resumed from an earlier revision. It is called with c.mu held.
func (c *watchCache) dropUnreadable(e *storage.Event) {
	c.objects.remove(e.Key)
	c.objects.changed(e.Revision)
	c.history.reset(e.Revision)
	c.watchers.endAll(c.broken.at(e.Key))
}

// putBack takes an entry into the state that could not be read when it came. No watch has begun without it, or can be
// resumed from an earlier revision.
func (c *watchCache) putBack(e *Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded || !c.broken.mended(e.Key, e.Revision) {
		return
	}
	c.objects.put(e)
	c.objects.dropSnapshots()
}

// forget drops what is remembered for resumed watches and paginated lists after they took too long.
func (c *watchCache) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.trim(now, quietTime)
	c.objects.forget(now)
}

func (c *watchCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return
	default:
	}
	close(c.closed)
	c.watchers.endAll(c.errs.closed())
}

// revisionLocked is the newest revision at which the state is known to be right: that of the last change, or a later
// one that all caches have reached. What the set has reached is asked with c.mu held, as the state may be exchanged for
// one of a store that went back.
func (c *watchCache) revisionLocked() int64 { return max(c.reached(), c.objects.last) }

// snapshotNow returns the state as it is now, and a revision at which it is right.
func (c *watchCache) snapshotNow() (*snapshot, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects.now(), c.revisionLocked()
}

// snapshotAt returns the state at an exact revision, or nil if it isn't at hand.
func (c *watchCache) snapshotAt(revision int64) *snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects.at(revision, c.revisionLocked())
}

// keep remembers a state, so that the following pages of a list can be had from it.
func (c *watchCache) keep(s *snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects.keep(s, c.clock.Now())
}

// remembers tells whether upstream's cache would have the state of a revision: it keeps one for each event that it
// remembers.
func (c *watchCache) remembers(revision int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.cacheDisabled && c.loaded && revision >= c.history.start && revision <= c.revisionLocked()
}

// peek returns an entry as it is now.
func (c *watchCache) peek(key string) (*Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects.get(key)
}

// stats counts what is there now.
func (c *watchCache) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Objects: c.objects.items.Len(), Bytes: c.objects.bytes, Revision: c.revisionLocked(), Events: c.events,
		Capacity: c.history.limit, Direct: c.cacheDisabled}
}

// join registers a watcher, in one step with taking the state or the past events that it begins with.
func (c *watchCache) join(w *Watcher, initial bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return c.errs.closed()
	default:
	}
	if err := c.broken.below(w.match.prefix); err != nil {
		return err
	}
	now := c.revisionLocked()
	switch {
	case initial:
		w.initial, w.revision, w.from = c.objects.now(), now, w.match.prefix
		w.after = now
	case w.after == 0:
		w.after = now
	default:
		past, ok := c.history.since(w.after)
		if !ok {
			return c.errForgotten(w.after)
		}
		for _, change := range past {
			if e, ok := w.match.event(change); ok {
				w.queue = append(w.queue, e)
			}
		}
		w.after = max(w.after, c.objects.last)
		if len(w.queue) > 0 {
			w.wakeUp()
		}
	}
	c.watchers.add(w)
	return nil
}

// errForgotten answers a watch from a revision that the history no longer reaches back to. Upstream's store has other
// words than its caches.
func (c *watchCache) errForgotten(wanted int64) error {
	if c.cacheDisabled {
		return errExpired("The resourceVersion for the provided watch is too old.")
	}
	return errExpired(fmt.Sprintf("too old resource version: %d (%d)", wanted, c.history.start))
}
