package cache

import (
	"sort"
	"sync"
	"time"

	"quintet.dev/quintet/components/apiserver/codec"
)

// change is one event of a resource: entry is nil when it was deleted, prev when it was created.
type change struct {
	revision    int64
	at          time.Time // when it was seen here
	entry, prev *Entry

	once sync.Once
	gone *Entry
}

// lost is the entry that a watcher gets when an object leaves its view: the last state it could see, at the revision of
// the change.
func (c *change) lost() *Entry {
	c.once.Do(func() { c.gone = atRevision(c.prev, c.revision) })
	return c.gone
}

// atRevision shows an entry at another revision. The copy shares all but the struct that holds the resource version.
func atRevision(e *Entry, revision int64) *Entry {
	obj := codec.ShallowCopy(e.Object)
	obj.SetResourceVersion(formatRevision(revision))
	return &Entry{Key: e.Key, Revision: revision, Object: obj}
}

// How long a resource remembers its events: while others come, as long as a watch that was cut may take to come back,
// and then some; but a few at least, and Config.Events at most. Upstream forgets none before others come. That is not
// so here: what is remembered keeps old versions of objects in memory, of which a burst leaves many, and after
// quietTime the store may have forgotten them, too.
const (
	eventTime = 75 * time.Second
	quietTime = 5 * time.Minute
	fewEvents = 100
	// fewDirect takes the place of fewEvents where a watch may go on from all that the store knows. Such objects are
	// short-lived, and hardly ever changed: to remember them costs little.
	fewDirect = 10_000
)

// ring holds the last changes of a resource, oldest first.
type ring struct {
	limit   int
	few     int
	start   int64 // all changes after this revision are here
	changes []*change
}

func (r *ring) reset(revision int64) { r.start, r.changes = revision, nil }

func (r *ring) append(c *change) {
	r.changes = append(r.changes, c)
	r.trim(c.at, eventTime)
}

// trim forgets what is older, or too much.
func (r *ring) trim(now time.Time, age time.Duration) {
	for len(r.changes) > r.limit || len(r.changes) > r.few && now.Sub(r.changes[0].at) > age {
		r.start = r.changes[0].revision
		r.changes[0] = nil
		r.changes = r.changes[1:]
	}
}

// since returns the changes after revision, which stay valid until the next change; ok is false if they are no longer
// all here.
func (r *ring) since(revision int64) (changes []*change, ok bool) {
	if revision < r.start {
		return nil, false
	}
	i := sort.Search(len(r.changes), func(i int) bool { return r.changes[i].revision > revision })
	return r.changes[i:], true
}
