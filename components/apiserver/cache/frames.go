package cache

import (
	"slices"

	"quintet.dev/quintet/components/apiserver/serial"
)

// Frames are events as they are sent. Those of the cache are shared: they must not be changed.
type Frames struct {
	Bytes []byte
	Ends  []int // where in Bytes each event ends

	events []Event
}

// Reset makes room for other events.
func (f *Frames) Reset() { f.Bytes, f.Ends = f.Bytes[:0], f.Ends[:0] }

// maxShared is how large frames may be that are kept for others, in bytes.
const maxShared = 64 << 10

// Frame writes what Next has returned, in a format. One of a crowd gets what was written for another, as most of them are told the
// same; who is alone gets own, which it is to give again.
func (w *Watcher) Frame(format *Format, events []Event, own *Frames) (*Frames, error) {
	if !w.crowded {
		own.Reset()
		return own, own.append(format, events)
	}
	if last := format.last.Load(); last != nil && slices.Equal(last.events, events) {
		return last, nil
	}
	made := &Frames{events: slices.Clone(events)}
	if err := made.append(format, events); err != nil {
		return nil, err
	}
	if len(made.Bytes) <= maxShared {
		format.last.Store(made)
	}
	return made, nil
}

func (f *Frames) append(format *Format, events []Event) error {
	for _, e := range events {
		body, err := e.Entry.Encoded(format)
		if err != nil {
			return err
		}
		f.Bytes = serial.AppendWatchEvent(f.Bytes, format.Media, string(e.Type), format.Kind, body)
		f.Ends = append(f.Ends, len(f.Bytes))
	}
	return nil
}
