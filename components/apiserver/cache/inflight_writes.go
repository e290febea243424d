package cache

import (
	"bytes"
	"sync"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/storage"
)

// pendingWrites are the writes of this process whose watch events have not come yet. The event of such a write needn't
// be decoded: it gets the writer's entry, and with it the encodings.
type pendingWrites struct {
	mu    sync.Mutex
	byKey map[string]*pendingWrite
}

type pendingWrite struct {
	value []byte

	mu    sync.Mutex
	obj   api.Object
	entry *Entry
}

func (fs *pendingWrites) begin(key string, obj api.Object, value []byte) *pendingWrite {
	f := &pendingWrite{value: value, obj: obj}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.byKey == nil {
		fs.byKey = map[string]*pendingWrite{}
	}
	fs.byKey[key] = f
	return f
}

func (fs *pendingWrites) end(key string, f *pendingWrite) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.byKey[key] == f {
		delete(fs.byKey, key)
	}
}

// settle forgets the completed writes when all is listed again: the watch may bring no event for them any more. If it
// does, the event is decoded.
func (fs *pendingWrites) settle() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for key, f := range fs.byKey {
		if f.done() {
			delete(fs.byKey, key)
		}
	}
}

func (f *pendingWrite) done() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entry != nil
}

// landed returns the entry for an event that a flight has caused, or nil.
func (fs *pendingWrites) landed(e *storage.Event) *Entry {
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
	return f.complete(e.Key, e.Revision)
}

// complete makes the entry of the write, for the writer and for the watch, whichever comes first. If the revisions
// differ, another writer wrote the same bytes to the key: each gets an entry of its own.
func (f *pendingWrite) complete(key string, revision int64) *Entry {
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
