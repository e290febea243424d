package cache

import (
	"sort"
	"sync"
	"time"

	"quintet.dev/quintet/components/apiserver/serial"
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
	obj := serial.ShallowCopy(e.Object)
	obj.SetResourceVersion(formatRevision(revision))
	return &Entry{Key: e.Key, Revision: revision, Object: obj}
}

// How long a resource remembers its events: as long as a watch that was cut may take to come back, and then some; but
// fewEvents at least, and Config.Events at most. What is remembered keeps old versions of objects in memory.
const (
	eventTime = 75 * time.Second
	fewEvents = 100
)

// ring holds the last changes of a resource, oldest first.
type ring struct {
	limit   int
	start   int64 // all changes after this revision are here
	changes []*change
}

func (r *ring) reset(revision int64) { r.start, r.changes = revision, nil }

func (r *ring) append(c *change) {
	r.changes = append(r.changes, c)
	r.trim(c.at)
}

// trim forgets what is too old or too much.
func (r *ring) trim(now time.Time) {
	for len(r.changes) > r.limit || len(r.changes) > fewEvents && now.Sub(r.changes[0].at) > eventTime {
		r.start = r.changes[0].revision
		r.changes[0] = nil
		r.changes = r.changes[1:]
	}
}

// since returns the changes after revision, which stay valid until the next change; ok is false if they are no longer all
// here.
func (r *ring) since(revision int64) (changes []*change, ok bool) {
	if revision < r.start {
		return nil, false
	}
	i := sort.Search(len(r.changes), func(i int) bool { return r.changes[i].revision > revision })
	return r.changes[i:], true
}
