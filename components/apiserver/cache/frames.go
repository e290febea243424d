package cache

import (
	"slices"

	"quintet.dev/quintet/components/apiserver/codec"
)

// Frames are events as they are sent. Those of the cache are shared: they must not be changed.
type Frames struct {
	Bytes []byte
	Ends  []int // where in Bytes each event ends

	events []Event
}

// Reset makes room for other events.
func (f *Frames) Reset() { f.Bytes, f.Ends = f.Bytes[:0], f.Ends[:0] }

// Given are the frames as they are to be sent. Large ones are no longer f's then: a watch that began with many objects
// would hold on to them for as long as it lasts.
func (f *Frames) Given() *Frames {
	if cap(f.Bytes) <= maxKept {
		return f
	}
	out := *f
	*f = Frames{}
	return &out
}

// maxKept is how large frames may be that are kept, for others or for what is written next, in bytes.
const maxKept = 64 << 10

// Frame encodes what Next has returned, in a format. Watchers in a large bucket share encoded frames, as most of them
// get the same events; a single watcher reuses own, if the frames are not large.
func (w *Watcher) Frame(format *Format, events []Event, own *Frames) (*Frames, error) {
	if !w.batched {
		own.Reset()
		err := own.append(format, events)
		return own.Given(), err
	}
	for i := range format.shared {
		if s := format.shared[i].Load(); s != nil && slices.Equal(s.events, events) {
			return s, nil
		}
	}
	made := &Frames{events: slices.Clone(events)}
	if err := made.append(format, events); err != nil {
		return nil, err
	}
	if len(made.Bytes) <= maxKept {
		oldest := format.turn.Add(1) % uint32(len(format.shared))
		format.shared[oldest].Store(made)
	}
	return made, nil
}

// around is about what an event takes beside its object, in bytes.
const around = 96

func (f *Frames) append(format *Format, events []Event) error {
	size := 0
	for _, e := range events {
		body, err := e.Entry.Encoded(format)
		if err != nil {
			return err
		}
		size += len(body) + around
	}
	f.Bytes = slices.Grow(f.Bytes, size)
	for _, e := range events {
		body, err := e.Entry.Encoded(format)
		if err != nil {
			return err
		}
		f.Bytes = codec.AppendWatchEvent(f.Bytes, format.Media, string(e.Type), format.Kind, body)
		f.Ends = append(f.Ends, len(f.Bytes))
	}
	return nil
}
