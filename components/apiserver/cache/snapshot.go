package cache

import (
	"slices"
	"time"
)

// snapshot is the state over a range of revisions; it doesn't change, but for the end of the range.
type snapshot struct {
	tree
	from  int64     // the last change in it
	until int64     // the first change that isn't, 0 as long as there is none; guarded by Cache.mu
	last  time.Time // when it was kept
}

// States that lists have begun to page through are kept: so many, for so long. After that the store is asked, which
// keeps its history for about as long. An old state costs the memory of what has changed since.
const (
	keptSnapshots = 4
	keptTime      = 5 * time.Minute
)

// revisionLocked is the newest revision at which the state is known to be right: that of the last change, or a later
// one that all caches have reached. What the set has reached is asked with c.mu held, as the state may be exchanged for
// one of a store that went back.
func (c *Cache) revisionLocked() int64 { return max(c.set.Revision(), c.last) }

// snapshotNow returns the state as it is now, and a revision at which it is right.
func (c *Cache) snapshotNow() (*snapshot, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.viewLocked(), c.revisionLocked()
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
	now := c.set.config.Clock.Now()
	c.kept = slices.DeleteFunc(c.kept, func(k *snapshot) bool { return k == s || now.Sub(k.last) > keptTime })
	if len(c.kept) == keptSnapshots {
		c.kept = slices.Delete(c.kept, 0, 1)
	}
	s.last = now
	c.kept = append(c.kept, s)
}

// snapshotAt returns the state at an exact revision, or nil if it isn't at hand.
func (c *Cache) snapshotAt(revision int64) *snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision >= c.last && revision <= c.revisionLocked() {
		return c.viewLocked()
	}
	for _, s := range c.kept {
		if revision >= s.from && s.until != 0 && revision < s.until {
			return s
		}
	}
	return nil
}

// remembers tells whether upstream's cache would have the state of a revision: it keeps one for each event that it
// remembers.
func (c *Cache) remembers(revision int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.cacheDisabled && c.loaded && revision >= c.history.start && revision <= c.revisionLocked()
}
