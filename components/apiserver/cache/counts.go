package cache

import "sync/atomic"

// Counts is what a cache has done since it was made.
type Counts struct {
	// Loads of all objects from the store, and how many those were.
	Loads, Loaded int64
	// Consistent reads waited for the revision that the store had; Failed of them in vain.
	Consistent, Failed int64
	// Initial is the events that told watches what there was when they began.
	Initial int64
	// Lists by the field selector whose index they went by, "" for none.
	Lists map[string]Lists
}

// Lists is how many lists there were, how many objects they looked at, and how many they returned.
type Lists struct{ Total, Fetched, Returned int64 }

type counts struct {
	loads, loaded, consistent, failed, initial atomic.Int64
	lists                                      []struct{ total, fetched, returned atomic.Int64 } // by index, the last for none
}

func (c *counts) list(index, fetched, returned int) {
	l := &c.lists[index]
	l.total.Add(1)
	l.fetched.Add(int64(fetched))
	l.returned.Add(int64(returned))
}

// Counts returns what the cache has done.
func (c *Cache) Counts() Counts {
	out := Counts{
		Loads: c.counts.loads.Load(), Loaded: c.counts.loaded.Load(), Consistent: c.counts.consistent.Load(), Failed: c.counts.failed.Load(),
		Initial: c.counts.initial.Load(), Lists: map[string]Lists{},
	}
	for i := range c.counts.lists {
		l := &c.counts.lists[i]
		name := ""
		if i < len(c.indexed) {
			name = "f:" + c.indexed[i].field // as upstream calls it
		}
		if n := l.total.Load(); n > 0 {
			out.Lists[name] = Lists{n, l.fetched.Load(), l.returned.Load()}
		}
	}
	return out
}
