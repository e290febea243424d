package cache

import (
	"sort"
	"sync"

	"quintet.dev/quintet/components/apiserver/serial"
)

// change is one event of a resource: entry is nil when it was deleted, prev when it was created.
type change struct {
	revision    int64
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

// ring holds the last changes of a resource, oldest first.
type ring struct {
	limit   int
	start   int64 // all changes after this revision are here
	changes []*change
}

func (r *ring) reset(revision int64) { r.start, r.changes = revision, nil }

// append adds a change. The slice grows to twice the limit before the older half is dropped, so that this costs little
// and readers may keep what since gave them.
func (r *ring) append(c *change) {
	r.changes = append(r.changes, c)
	if len(r.changes) >= 2*r.limit {
		drop := len(r.changes) - r.limit
		r.start = r.changes[drop-1].revision
		r.changes = append(make([]*change, 0, 2*r.limit), r.changes[drop:]...)
	}
}

// since returns the changes after revision; ok is false if they are no longer all here.
func (r *ring) since(revision int64) (changes []*change, ok bool) {
	if revision < r.start {
		return nil, false
	}
	i := sort.Search(len(r.changes), func(i int) bool { return r.changes[i].revision > revision })
	return r.changes[i:len(r.changes):len(r.changes)], true
}
