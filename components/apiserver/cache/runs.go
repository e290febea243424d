package cache

import (
	"hash/maphash"
	"io"
	"sync"

	"quintet.dev/quintet/components/apiserver/serial"
)

// A run is a stretch of a list, compressed. Where runs begin is told by the keys alone (one key in runMean begins one), so
// that a change of an object spoils no run but its own.
const (
	runMean = 64
	runMax  = 4 * runMean
	// runsFrom is the number of entries from which it is worth while.
	runsFrom = 64
)

// runKey is where a run is kept; what it is made of is told by its sum.
type runKey struct {
	first     string // key of its first entry
	format    *Format
	keepKinds bool
}

type run struct {
	segment serial.Segment
	sum     uint64 // over the revisions of its entries
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
func (l *List) WriteZipped(w io.Writer, f *Format, out serial.List) error {
	out.Meta = l.Meta()
	var segments []*serial.Segment
	for from := 0; from < len(l.Entries); {
		to := runEnd(l.Entries, from)
		s, err := l.cache.zipped.run(l.Entries[from:to], f, out, l.cache.set.config.Encodings/4)
		if err != nil {
			return err
		}
		segments = append(segments, s)
		from = to
	}
	return serial.WriteZippedList(w, f.Media, out, segments)
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

// run returns the compressed entries. Runs over the limit make room for all others at once: they are quickly made anew.
func (r *runs) run(entries []*Entry, f *Format, out serial.List, limit int64) (*serial.Segment, error) {
	key, sum := runKey{entries[0].Key, f, out.KeepKinds}, sumOfRevisions(entries)
	r.mu.Lock()
	old := r.kept[key]
	r.mu.Unlock()
	if old != nil && old.sum == sum {
		return &old.segment, nil
	}
	bodies := make([][]byte, len(entries))
	for i, e := range entries {
		var err error
		if bodies[i], err = e.Encoded(f); err != nil {
			return nil, err
		}
	}
	made := &run{segment: serial.ItemSegment(f.Media, out, bodies), sum: sum}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old = r.kept[key]; old != nil {
		r.bytes -= int64(old.segment.Len())
	}
	if r.bytes += int64(made.segment.Len()); r.kept == nil || r.bytes > limit {
		r.kept, r.bytes = map[runKey]*run{}, int64(made.segment.Len())
	}
	r.kept[key] = made
	return &made.segment, nil
}

func sumOfRevisions(entries []*Entry) uint64 {
	const prime = 0x9E3779B97F4A7C15
	sum := uint64(len(entries))
	for _, e := range entries {
		sum = (sum ^ uint64(e.Revision)) * prime
		sum ^= sum >> 29
	}
	return sum
}
