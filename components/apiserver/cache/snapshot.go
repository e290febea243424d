package cache

// snapshot is the state over a range of revisions; it doesn't change, but for the end of the range.
type snapshot struct {
	tree
	from  int64 // the last change in it
	until int64 // the first change that isn't, 0 as long as there is none; guarded by Cache.mu
}

// keptSnapshots is how many states that lists have begun to page through are kept.
const keptSnapshots = 16

// snapshot returns the state as it is now.
func (c *Cache) snapshot() *snapshot {
	s, _ := c.snapshotNow()
	return s
}

// snapshotNow returns the state as it is now, and a revision at which it is right: that of the last change, or a later
// one that all caches have reached.
func (c *Cache) snapshotNow() (*snapshot, int64) {
	reached := c.set.Revision()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.viewLocked(), max(reached, c.last)
}

// viewLocked copies the state if it has changed since the last copy. Copies share all nodes that don't change.
func (c *Cache) viewLocked() *snapshot {
	if c.view == nil {
		v := &snapshot{from: c.last, tree: tree{items: c.state.items.Copy()}}
		for _, index := range c.state.indexes {
			v.indexes = append(v.indexes, index.Copy())
		}
		c.view = v
	}
	return c.view
}

// keep remembers a state, so that the following pages of a list can be had from it.
func (c *Cache) keep(s *snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.kept {
		if other == s {
			return
		}
	}
	if len(c.kept) == keptSnapshots {
		c.kept = append(c.kept[:0], c.kept[1:]...)
	}
	c.kept = append(c.kept, s)
}

// snapshotAt returns the state at an exact revision, or nil if it isn't at hand.
func (c *Cache) snapshotAt(revision int64) *snapshot {
	reached := c.set.Revision()
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision >= c.last && revision <= max(reached, c.last) {
		return c.viewLocked()
	}
	for _, s := range c.kept {
		if revision >= s.from && s.until != 0 && revision < s.until {
			return s
		}
	}
	return nil
}
