package cache

import (
	"slices"
	"strings"
	"time"
)

// snapshot is the state over a range of revisions; it doesn't change, but for the end of the range.
type snapshot struct {
	tree
	from  int64     // the last change in it
	until int64     // the first change that isn't, 0 as long as there is none; belongs to the snapshotter
	last  time.Time // when it was kept
}

// States that lists have begun to page through are kept: so many, for so long. After that the store is asked, which
// keeps its history for about as long. An old state costs the memory of what has changed since.
const (
	keptSnapshots = 4
	keptTime      = 5 * time.Minute
)

// snapshotter is a store whose state at a revision can be kept. What it returns for a revision is the state that the
// store had then, to the entry.
type snapshotter struct {
	indexedStore
	last int64     // revision of the last change
	view *snapshot // of the state, nil when it has changed since
	kept []*snapshot
}

// replace begins with an empty state, which is filled by load. No earlier one is known any more.
func (s *snapshotter) replace(revision int64) {
	s.indexedStore = newIndexedStore(s.by, s.versions != nil)
	s.last = revision
	s.dropSnapshots()
}

// dropSnapshots forgets all states but the present one.
func (s *snapshotter) dropSnapshots() { s.view, s.kept = nil, nil }

// changed notes that the state is another from a revision on.
func (s *snapshotter) changed(revision int64) {
	if s.view != nil {
		s.view.until = revision
		s.view = nil
	}
	s.last = revision
}

// now copies the state if it has changed since the last copy. Copies share all nodes that don't change.
func (s *snapshotter) now() *snapshot {
	if s.view == nil {
		s.view = &snapshot{from: s.last, tree: s.copy()}
	}
	return s.view
}

// at returns the state at an exact revision, or nil if it isn't at hand; the present state is right up to reached.
func (s *snapshotter) at(revision, reached int64) *snapshot {
	if revision >= s.last && revision <= reached {
		return s.now()
	}
	for _, k := range s.kept {
		if revision >= k.from && k.until != 0 && revision < k.until {
			return k
		}
	}
	return nil
}

// keep remembers a state, so that the following pages of a list can be had from it.
func (s *snapshotter) keep(of *snapshot, now time.Time) {
	s.kept = slices.DeleteFunc(s.kept, func(k *snapshot) bool { return k == of || now.Sub(k.last) > keptTime })
	if len(s.kept) == keptSnapshots {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	of.last = now
	s.kept = append(s.kept, of)
}

// forget drops the states that have been kept for long.
func (s *snapshotter) forget(now time.Time) {
	s.kept = slices.DeleteFunc(s.kept, func(k *snapshot) bool { return now.Sub(k.last) > keptTime })
}

// walk calls yield for a superset of the entries that match, in order, by the shortest way that there is. It returns
// the number of the index that this was, beyond all if it was none.
func (t *tree) walk(keys keyLayout, namespace string, m *matcher, from string, yield func(*Entry) bool) int {
	if key, ok := m.key(keys, namespace); ok {
		if e, ok := t.items.Get(&Entry{Key: key}); ok && key >= from {
			yield(e)
		}
		return len(t.by)
	}
	for i := range t.by {
		want, ok := m.required(t.by[i].field)
		if !ok {
			continue
		}
		t.indexes[i].Ascend(indexed{want, &Entry{Key: from}}, func(x indexed) bool {
			return x.value == want && strings.HasPrefix(x.entry.Key, m.prefix) && yield(x.entry)
		})
		return i
	}
	t.items.Ascend(&Entry{Key: from}, func(e *Entry) bool {
		return strings.HasPrefix(e.Key, m.prefix) && yield(e)
	})
	return len(t.by)
}
