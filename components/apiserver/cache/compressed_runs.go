package cache

import (
	"hash/maphash"
	"io"
	"iter"
	"sync"
	"time"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// A run is a stretch of a list, compressed. Where runs begin is told by the keys alone (one key in runMean begins one),
// so that a change of an object spoils no run but its own.
const (
	runMean = 64
	runMax  = 4 * runMean
	// runsFrom is the number of entries from which it is worth while.
	runsFrom = 64
)

// runKey is where a run is kept; what it is made of is told by its sum.
type runKey struct {
	first     string  // key of its first entry
	format    *Format // of the bodies; nil for rows without
	keepKinds bool
	rows      *api.Version // whose Table it is a part of; nil for lists
}

type run struct {
	segment codec.Segment
	sum     uint64 // of its entries
	// from and until are when it is the same as one made now; until is zero for ever.
	from, until time.Time
}

func (r *run) holds(sum uint64, now time.Time) bool {
	return r != nil && r.sum == sum && (r.until.IsZero() || !now.Before(r.from) && now.Before(r.until))
}

// runs are those of a cache.
type runs struct {
	mu    sync.Mutex
	kept  map[runKey]*run
	bytes int64
}

// CanZip reports whether WriteZipped is of use: for long lists that no selector has thinned out.
func (l *List) CanZip() bool { return l.cache != nil && len(l.Entries) >= runsFrom }

// WriteZipped writes the list in JSON or protobuf, compressed with gzip, from runs that were compressed before where it
// can. Of out, Items and Meta are not used.
func (l *List) WriteZipped(w io.Writer, f *Format, out codec.List) error {
	out.Meta = l.Meta()
	segments, err := l.segments(l.Entries, runKey{format: f, keepKinds: out.KeepKinds}, time.Time{},
		func(entries []*Entry) (*run, error) {
			bodies := make([][]byte, len(entries))
			for i, e := range entries {
				var err error
				if bodies[i], err = e.Encoded(f); err != nil {
					return nil, err
				}
			}
			return &run{segment: codec.ItemSegment(f.Media, out, bodies)}, nil
		})
	if err != nil {
		return err
	}
	return codec.WriteZippedList(w, f.Media, out, segments)
}

// Rows are how entries are shown in Tables of a version, with bodies of a format or, if that is nil, none.
type Rows struct {
	Version *api.Version
	Format  *Format
	Make    func(entries []*Entry) iter.Seq2[codec.Row, error]
}

// WriteZippedTable writes the list's entries, in the order given, as a Table in JSON, compressed with gzip, from runs
// that were compressed before and say the same now, where it can. out.Rows is not used.
func (l *List) WriteZippedTable(w io.Writer, entries []*Entry, rows Rows, out codec.Table) error {
	segments, err := l.segments(entries, runKey{format: rows.Format, rows: rows.Version}, out.Now,
		func(entries []*Entry) (*run, error) {
			segment, until, err := codec.RowSegment(rows.Make(entries), out.Now)
			return &run{segment: segment, from: out.Now, until: until}, err
		})
	if err != nil {
		return err
	}
	return codec.WriteZippedTable(w, out, segments)
}

// segments compresses entries, run by run, where they are not compressed already.
func (l *List) segments(entries []*Entry, key runKey, now time.Time,
	compress func([]*Entry) (*run, error)) (out []*codec.Segment, err error) {
	for from := 0; from < len(entries); {
		to := runEnd(entries, from)
		key.first = entries[from].Key
		r, err := l.cache.zipped.run(entries[from:to], key, now, l.cache.set.config.Encodings/4, compress)
		if err != nil {
			return nil, err
		}
		out = append(out, &r.segment)
		from = to
	}
	return out, nil
}

// runEnd returns where the run that begins at from ends.
func runEnd(entries []*Entry, from int) int {
	last := min(from+runMax, len(entries))
	for i := from + 1; i < last; i++ {
		if maphash.String(seed, entries[i].Key)%runMean == 0 {
			return i
		}
	}
	return last
}

// run returns the compressed entries. Runs over the limit evict all others at once: they are cheap to recreate.
func (r *runs) run(entries []*Entry, key runKey, now time.Time, limit int64,
	compress func([]*Entry) (*run, error)) (*run, error) {
	sum := sumOfEntries(entries)
	r.mu.Lock()
	old := r.kept[key]
	r.mu.Unlock()
	if old.holds(sum, now) {
		return old, nil
	}
	made, err := compress(entries)
	if err != nil {
		return nil, err
	}
	made.sum = sum
	r.mu.Lock()
	defer r.mu.Unlock()
	if old = r.kept[key]; old != nil {
		r.bytes -= int64(old.segment.Len())
	}
	if r.bytes += int64(made.segment.Len()); r.kept == nil || r.bytes > limit {
		r.kept, r.bytes = map[runKey]*run{}, int64(made.segment.Len())
	}
	r.kept[key] = made
	return made, nil
}

// sumOfEntries tells entries apart. Where the store went back, as it was restored, others may have the revisions that
// are known.
func sumOfEntries(entries []*Entry) uint64 {
	const prime = 0x9E3779B97F4A7C15
	sum := uint64(len(entries))
	for _, e := range entries {
		sum = (sum ^ uint64(e.Revision) ^ e.sum) * prime
		sum ^= sum >> 29
	}
	return sum
}
