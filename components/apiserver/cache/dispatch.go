package cache

import (
	"sync"

	"k8s.io/utils/clock"
)

// indexedWatchers are where watchers wait for events, each in the most selective bucket: at its key, at a value of an
// index, at its namespace, or with those that see everything. So the watches of five thousand kubelets cost an event of
// one pod no more than one of them.
type indexedWatchers struct {
	keys   keyLayout
	by     []index
	clock  clock.Clock
	mu     sync.Locker     // guards what follows: all methods are called with it held
	closed <-chan struct{} // when the watchers have ended

	all        bucket
	atKey      map[string]*bucket
	namespaces map[string]*bucket // by key prefix
	values     []map[string]*bucket
	asleep     []*bucket // have watchers that are to be woken
}

// bucket is watchers in no order.
type bucket struct {
	watchers []*Watcher
	wakeBatches
}

// place tells where a watcher is: in which bucket, and how that is found. bucket is nil when it is nowhere.
type place struct {
	bucket *bucket
	index  int
	within map[string]*bucket // nil for indexedWatchers.all
	name   string
}

func newIndexedWatchers(keys keyLayout, by []index, clk clock.Clock, mu sync.Locker,
	closed <-chan struct{}) indexedWatchers {
	r := indexedWatchers{keys: keys, by: by, clock: clk, mu: mu, closed: closed,
		atKey: map[string]*bucket{}, namespaces: map[string]*bucket{}}
	for range by {
		r.values = append(r.values, map[string]*bucket{})
	}
	return r
}

func (r *indexedWatchers) add(w *Watcher) {
	if key, ok := w.match.key(r.keys, w.scope); ok {
		w.slot = place{within: r.atKey, name: key}
	} else if i, value, ok := r.indexFor(&w.match); ok {
		w.slot = place{within: r.values[i], name: value}
	} else if w.match.prefix != r.keys.prefix {
		w.slot = place{within: r.namespaces, name: w.match.prefix}
	}
	w.slot.bucket = &r.all
	if w.slot.within != nil {
		b := w.slot.within[w.slot.name]
		if b == nil {
			b = &bucket{}
			w.slot.within[w.slot.name] = b
		}
		w.slot.bucket = b
	}
	w.slot.index = len(w.slot.bucket.watchers)
	w.slot.bucket.watchers = append(w.slot.bucket.watchers, w)
}

func (r *indexedWatchers) indexFor(m *matcher) (int, string, bool) {
	for i := range r.by {
		if value, ok := m.required(r.by[i].field); ok {
			return i, value, true
		}
	}
	return 0, "", false
}

func (r *indexedWatchers) remove(w *Watcher) {
	b := w.slot.bucket
	if b == nil {
		return
	}
	last := len(b.watchers) - 1
	moved := b.watchers[last]
	b.watchers[w.slot.index] = moved
	moved.slot.index = w.slot.index
	b.watchers[last] = nil
	b.watchers = b.watchers[:last]
	if last == 0 && w.slot.within != nil {
		delete(w.slot.within, w.slot.name)
	}
	w.slot = place{}
}

func (r *indexedWatchers) each(f func(*bucket)) {
	f(&r.all)
	for _, m := range append([]map[string]*bucket{r.atKey, r.namespaces}, r.values...) {
		for _, b := range m {
			f(b)
		}
	}
}

func (r *indexedWatchers) endAll(err error) {
	r.each(func(b *bucket) {
		for _, w := range b.watchers {
			w.end(err)
		}
	})
}

// dispatch queues a change for the watchers it may concern, which are woken once those of its revision are all queued.
// It never blocks.
func (r *indexedWatchers) dispatch(now *change) {
	r.send(&r.all, now)
	key := now.key()
	if b := r.atKey[key]; b != nil {
		r.send(b, now)
	}
	if len(r.namespaces) > 0 {
		namespace, _ := r.keys.names(key)
		if b := r.namespaces[r.keys.scope(namespace)]; b != nil {
			r.send(b, now)
		}
	}
	for i, values := range r.values {
		if len(values) > 0 {
			r.dispatchIndexed(now, r.by[i], values)
		}
	}
}

func (r *indexedWatchers) dispatchIndexed(now *change, by index, values map[string]*bucket) {
	var is, was *bucket
	if now.entry != nil {
		is = values[by.value(now.entry.Object)]
	}
	if now.prev != nil {
		was = values[by.value(now.prev.Object)]
	}
	if is != nil {
		r.send(is, now)
	}
	if was != nil && was != is {
		r.send(was, now)
	}
}

func (c *change) key() string {
	if c.entry != nil {
		return c.entry.Key
	}
	return c.prev.Key
}

// send queues a change for all watchers of a bucket that can see it and don't know it yet.
func (r *indexedWatchers) send(b *bucket, now *change) {
	many := len(b.watchers) >= batchedFrom
	for _, w := range b.watchers {
		if now.revision <= w.after {
			continue
		}
		if e, ok := w.match.event(now); ok && w.push(e, many) {
			b.asleep = append(b.asleep, w)
		}
	}
	if len(b.asleep) > 0 {
		r.asleep = append(r.asleep, b)
	}
}
