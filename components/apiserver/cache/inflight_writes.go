package cache

import (
	"bytes"
	"sync"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/storage"
)

// flights are the writes of this process that the watch has not brought yet. The event of such a write needn't be
// decoded: it gets the entry, and with it the encodings, of the one who wrote.
type flights struct {
	mu    sync.Mutex
	byKey map[string]*flight
}

type flight struct {
	value []byte

	mu    sync.Mutex
	obj   kinds.Object
	entry *Entry
}

func (fs *flights) begin(key string, obj kinds.Object, value []byte) *flight {
	f := &flight{value: value, obj: obj}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.byKey == nil {
		fs.byKey = map[string]*flight{}
	}
	fs.byKey[key] = f
	return f
}

func (fs *flights) end(key string, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.byKey[key] == f {
		delete(fs.byKey, key)
	}
}

// settle forgets the writes that are done when all is listed anew: the watch may bring no event of them any more. If it does,
// the event is decoded.
func (fs *flights) settle() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for key, f := range fs.byKey {
		if f.done() {
			delete(fs.byKey, key)
		}
	}
}

func (f *flight) done() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entry != nil
}

// landed returns the entry for an event that a flight has caused, or nil.
func (fs *flights) landed(e *storage.Event) *Entry {
	fs.mu.Lock()
	f := fs.byKey[e.Key]
	if f != nil && bytes.Equal(f.value, e.Value) {
		delete(fs.byKey, e.Key)
	} else {
		f = nil
	}
	fs.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.land(e.Key, e.Revision)
}

// land makes the entry of the write, for the writer and for the watch, whoever comes first. If the revisions differ,
// somebody else wrote the same bytes to the key: each gets an entry of its own.
func (f *flight) land(key string, revision int64) *Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entry != nil && f.entry.Revision == revision {
		return f.entry
	}
	obj := f.obj
	if f.entry != nil {
		obj = serial.ShallowCopy(obj)
	}
	obj.SetResourceVersion(formatRevision(revision))
	e := &Entry{Key: key, Revision: revision, Object: obj, sum: sumOf(f.value), size: len(f.value)}
	if f.entry == nil {
		f.entry = e
	}
	return e
}
