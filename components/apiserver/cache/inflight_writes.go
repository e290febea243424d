package cache

import (
	"bytes"
	"sync"
	"sync/atomic"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
)

// ownWrites are the writes of this process to a cache. A write that is done is in the cache before Set.Revision is that
// of the write: until then it is pending.
type ownWrites struct {
	set     *Set
	pending pendingWrites
	puts    atomic.Int64 // objects that were written here
	newest  atomic.Int64 // revision of the newest write that was done here
}

// unshared is how many objects of a kind are written before what is alike in them is looked for: in so few it doesn't
// pay, and a new cluster starts with no more.
const unshared = 100

// put writes, and makes the entry that the watch will bring too.
func (o *ownWrites) put(key string, obj api.Object, value []byte, write func() (int64, error)) (*Entry, error) {
	if o.puts.Add(1) > unshared {
		o.set.parts.Share(obj)
	}
	f := o.pending.begin(key, obj, value)
	before := o.set.Revision()
	revision, err := write()
	if err != nil {
		o.pending.end(key, f)
		return nil, err
	}
	o.wrote(revision, before)
	e := f.complete(key, revision)
	if o.set.Revision() >= revision {
		o.pending.end(key, f)
	}
	return e, nil
}

// wrote notes the revision of a write that is done, before which the caches had reached another.
func (o *ownWrites) wrote(revision, before int64) {
	for last := o.newest.Load(); last < revision && !o.newest.CompareAndSwap(last, revision); {
		last = o.newest.Load()
	}
	o.set.wrote(revision, before)
}

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
		obj = codec.ShallowCopy(obj)
	}
	obj.SetResourceVersion(formatRevision(revision))
	e := &Entry{Key: key, Revision: revision, Object: obj, sum: sumOf(f.value), size: len(f.value)}
	if f.entry == nil {
		f.entry = e
	}
	return e
}
