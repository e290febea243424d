package cache

import (
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Counts is what a cache has done since it was made.
type Counts struct {
	// Loads of all objects from the store, and how many those were.
	Loads, Loaded int64
	// Consistent reads waited until the cache was as new as the store, Failed ones in vain; FellBack and FellFailing
	// are those that were made in the store instead, and whether they succeeded there.
	Consistent, Failed, FellBack, FellFailing int64
	// Initial is the events that told watches what there was when they began.
	Initial int64
	// Lists by the field selector whose index they went by, "" for none.
	Lists map[string]Lists
	// Waits is how long reads waited until the cache was as new as they asked.
	Waits Waits
	// Comparisons with the store that found both the Same, or Different, and those that failed.
	Same, Different, Unchecked int64
	// Bookmarks by which the store told how far it is.
	Bookmarks int64
	// Behind is the watches that ended as too much was left lying; Undecodable is the tries to decode a value that
	// could not be.
	Behind, Undecodable int64
}

// Waits counts reads by how long they waited: Count is how many there were, Sum what they took together, and Up how
// many waited no longer than each of WaitBounds.
type Waits struct {
	Count uint64
	Sum   time.Duration
	Up    [len(WaitBounds)]uint64
}

// WaitBounds are those of upstream's histogram.
var WaitBounds = [...]time.Duration{
	5 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
	400 * time.Millisecond, 600 * time.Millisecond, 800 * time.Millisecond, time.Second, 1250 * time.Millisecond,
	1500 * time.Millisecond, 2 * time.Second, 3 * time.Second,
}

// waits by the first bound that they don't go beyond; the last is for those that go beyond all.
type waits struct {
	by  [len(WaitBounds) + 1]atomic.Uint64
	sum atomic.Int64
}

func (w *waits) add(took time.Duration) {
	i := 0
	for i < len(WaitBounds) && took > WaitBounds[i] {
		i++
	}
	w.by[i].Add(1)
	w.sum.Add(int64(took))
}

func (w *waits) read() Waits {
	out := Waits{Sum: time.Duration(w.sum.Load())}
	for i := range w.by {
		out.Count += w.by[i].Load()
		if i < len(out.Up) {
			out.Up[i] = out.Count
		}
	}
	return out
}

// Lists is how many lists there were, how many objects they looked at, and how many they returned.
type Lists struct{ Total, Fetched, Returned int64 }

type counts struct {
	loads, loaded, initial                    atomic.Int64
	consistent, failed, fellBack, fellFailing atomic.Int64
	same, different, unchecked                atomic.Int64
	behind                                    atomic.Int64
	bookmarks                                 int64 // that the set had when the cache was made
	waits                                     waits
	// by index, the last for none
	lists []struct{ total, fetched, returned atomic.Int64 }
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
		Loads: c.counts.loads.Load(), Loaded: c.counts.loaded.Load(), Consistent: c.counts.consistent.Load(),
		Failed: c.counts.failed.Load(),
		Behind: c.counts.behind.Load(), Undecodable: c.codec.undecodable.Load(),
		FellBack: c.counts.fellBack.Load(), FellFailing: c.counts.fellFailing.Load(),
		Same: c.counts.same.Load(), Different: c.counts.different.Load(), Unchecked: c.counts.unchecked.Load(),
		Initial: c.counts.initial.Load(), Lists: map[string]Lists{},
		Waits: c.counts.waits.read(), Bookmarks: c.set.bookmarks.Load() - c.counts.bookmarks,
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

// instead counts a read of the store by a request that had waited for the cache in vain.
func (c *counts) instead(of *behindError, err error) {
	switch {
	case !isTooLarge(of):
	case err == nil, apierrors.IsNotFound(err):
		c.fellBack.Add(1)
	default:
		c.fellFailing.Add(1)
	}
}
