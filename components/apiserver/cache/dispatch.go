package cache

// registry is where watchers wait for events, each in the most selective bucket: at its key, at a value of an index, at
// its namespace, or with those that see everything. So the watches of five thousand kubelets cost an event of one pod
// no more than one of them.
type registry struct {
	all        bucket
	keys       map[string]*bucket
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
	within map[string]*bucket // nil for registry.all
	name   string
}

func (r *registry) init(indexes int) {
	r.keys, r.namespaces = map[string]*bucket{}, map[string]*bucket{}
	for range indexes {
		r.values = append(r.values, map[string]*bucket{})
	}
}

func (r *registry) add(c *Cache, w *Watcher) {
	if key, ok := w.match.key(c, w.scope); ok {
		w.slot = place{within: r.keys, name: key}
	} else if i, value, ok := indexFor(c, &w.match); ok {
		w.slot = place{within: r.values[i], name: value}
	} else if w.match.prefix != c.prefix {
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

func indexFor(c *Cache, m *matcher) (int, string, bool) {
	for i := range c.indexed {
		if value, ok := m.required(c.indexed[i].field); ok {
			return i, value, true
		}
	}
	return 0, "", false
}

func (r *registry) remove(w *Watcher) {
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

func (r *registry) each(f func(*bucket)) {
	f(&r.all)
	for _, m := range append([]map[string]*bucket{r.keys, r.namespaces}, r.values...) {
		for _, b := range m {
			f(b)
		}
	}
}

func (r *registry) endAll(err error) {
	r.each(func(b *bucket) {
		for _, w := range b.watchers {
			w.end(err)
		}
	})
}

// dispatch queues a change for the watchers it may concern, which are woken once those of its revision are all queued.
// It is called with c.mu held, and never blocks.
func (c *Cache) dispatch(now *change) {
	r := &c.watchers
	c.send(&r.all, now)
	key := now.key()
	if b := r.keys[key]; b != nil {
		c.send(b, now)
	}
	if len(r.namespaces) > 0 {
		namespace, _ := c.names(key)
		if b := r.namespaces[c.scope(namespace)]; b != nil {
			c.send(b, now)
		}
	}
	for i, values := range r.values {
		if len(values) > 0 {
			c.dispatchIndexed(now, c.indexed[i], values)
		}
	}
}

func (c *Cache) dispatchIndexed(now *change, by index, values map[string]*bucket) {
	var is, was *bucket
	if now.entry != nil {
		is = values[by.value(now.entry.Object)]
	}
	if now.prev != nil {
		was = values[by.value(now.prev.Object)]
	}
	if is != nil {
		c.send(is, now)
	}
	if was != nil && was != is {
		c.send(was, now)
	}
}

func (c *change) key() string {
	if c.entry != nil {
		return c.entry.Key
	}
	return c.prev.Key
}

// send queues a change for all watchers of a bucket that can see it and don't know it yet.
func (c *Cache) send(b *bucket, now *change) {
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
		c.watchers.asleep = append(c.watchers.asleep, b)
	}
}
