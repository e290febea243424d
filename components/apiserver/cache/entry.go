package cache

import (
	"errors"
	"sync"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Entry is one version of one object, shared by all its readers: nothing in it may be changed. Object is of the hub
// version (a custom resource: of the version in which it lies in the store), and has its resource version and type meta
// set.
type Entry struct {
	Key      string
	Revision int64
	Object   api.Object

	sum  uint64 // of the stored value; 0 if the entry does not lie in the store as it would be written now
	size int    // of the stored value, in bytes

	encodings atomic.Pointer[encoding]
	forms     atomic.Pointer[form]
}

// form is the object of an entry in another version. Concurrent readers wait for one conversion.
type form struct {
	version *api.Version
	next    *form

	object atomic.Pointer[api.Object] // nil as long as it couldn't be had

	mu    sync.Mutex
	under *try // the one under way
}

// try is one conversion of the object of a form. All callers that wait for it get its result, be it an error: if they
// tried one after another, the last would wait for as many failures as there are others.
type try struct {
	done chan struct{}
	obj  api.Object
	err  error
}

// In is the object in a version of its kind. The result of a webhook conversion is kept.
func (e *Entry) In(kind *api.Kind, v *api.Version) (api.Object, error) {
	switch {
	case v.FromHub == nil:
		return e.Object, nil
	case !e.remote(kind, v):
		return v.FromHub(e.Object)
	}
	return e.form(v).of(e.Object)
}

// remote tells whether a webhook converts the object to a version.
func (e *Entry) remote(kind *api.Kind, v *api.Version) bool {
	return v.FromHub != nil && kind.Custom != nil && kind.Custom.Remote &&
		e.Object.GetObjectKind().GroupVersionKind().GroupVersion() != v.GroupVersion
}

// of is the form of an object, which is that of its entry.
func (f *form) of(obj api.Object) (api.Object, error) {
	if made := f.object.Load(); made != nil {
		return *made, nil
	}
	f.mu.Lock()
	if made := f.object.Load(); made != nil {
		f.mu.Unlock()
		return *made, nil
	}
	if t := f.under; t != nil {
		f.mu.Unlock()
		<-t.done
		return t.obj, t.err
	}
	t := &try{done: make(chan struct{}), err: errNoAnswer}
	f.under = t
	f.mu.Unlock()
	defer f.end(t)
	t.obj, t.err = f.version.FromHub(obj)
	return t.obj, t.err
}

// errNoAnswer is what waiting readers get when the conversion panics.
var errNoAnswer = errors.New("the conversion of the object broke off")

// end keeps the result of a try. After a failed one, the next reader tries again.
func (f *form) end(t *try) {
	f.mu.Lock()
	if f.under = nil; t.err == nil {
		f.object.Store(&t.obj)
	}
	f.mu.Unlock()
	close(t.done)
}

// form finds the place of a version, or makes it.
func (e *Entry) form(v *api.Version) *form {
	var made *form
	for {
		first := e.forms.Load()
		for f := first; f != nil; f = f.next {
			if f.version == v {
				return f
			}
		}
		if made == nil {
			made = &form{version: v}
		}
		made.next = first
		if e.forms.CompareAndSwap(first, made) {
			return made
		}
	}
}

// Shape is how much of an object a format shows.
type Shape int

// The shapes. Tables are made by codec.WriteTable from rows of lines and, if they are wanted, objects of one of the
// others. Only the lines of built-in kinds have a format, which is JSON.
const (
	Whole           Shape = iota
	Metadata              // PartialObjectMetadata
	MetadataV1beta1       // the same in meta.k8s.io/v1beta1
	TableRow              // codec.TableRow
)

// Format is one way to encode the objects of a kind. Formats come from Cache.Format and are compared by pointer.
type Format struct {
	Version *api.Version
	Media   codec.MediaType
	Shape   Shape
	// Kind is what an object says of itself in this format.
	Kind schema.GroupVersionKind

	of     *api.Kind
	budget *budget
	shared [4]atomic.Pointer[Frames] // that were sent to many watchers: a slow watcher has more to read than others
	turn   atomic.Uint32             // of shared
}

// Encoded returns the body of the object in a format (see package codec), which must not be changed. It is kept, as
// far as the budget goes: lists and watches want it again and again.
func (e *Entry) Encoded(f *Format) ([]byte, error) { return e.encoded(f, true) }

// EncodedOnce does the same for a caller that may be the only one to need the body, such as the request that has just
// written the object. Until the next garbage collection the body is there for others; once a second one comes it is
// kept.
func (e *Entry) EncodedOnce(f *Format) ([]byte, error) { return e.encoded(f, false) }

func (e *Entry) encoded(f *Format, keep bool) ([]byte, error) {
	if body := e.kept(f); body != nil {
		return body, nil
	}
	// before the lock: a caller that waits for it would be next to ask
	if f.Version != nil && e.remote(f.of, f.Version) {
		if _, err := e.In(f.of, f.Version); err != nil {
			return nil, err
		}
	}
	n := e.link(f)
	n.mu.Lock()
	defer n.mu.Unlock()
	if body := n.body.Load(); body != nil {
		return *body, nil
	}
	body := n.recent.Value()
	if body == nil {
		made, err := f.encode(e)
		if err != nil {
			return nil, err
		}
		body = &made
		if !keep && !n.asked {
			n.asked, n.recent = true, weak.Make(body)
			return made, nil
		}
	}
	n.recent = weak.Pointer[[]byte]{}
	n.body.Store(body)
	f.budget.spend(n, len(*body))
	return *body, nil
}

// encoding is a link in the list of an entry's encodings. body is dropped when the budget is spent; recent is the one
// that was made for the first reader. Each has a lock of its own: one that a webhook is called for must not keep the
// others waiting.
type encoding struct {
	format *Format
	body   atomic.Pointer[[]byte]
	used   atomic.Bool
	next   *encoding

	mu     sync.Mutex
	asked  bool
	recent weak.Pointer[[]byte]
}

func (e *Entry) kept(f *Format) []byte {
	for n := e.encodings.Load(); n != nil; n = n.next {
		if n.format == f {
			body := n.body.Load()
			if body == nil {
				return nil
			}
			if !n.used.Load() {
				n.used.Store(true)
			}
			return *body
		}
	}
	return nil
}

// link finds the place of a format, or makes it.
func (e *Entry) link(f *Format) *encoding {
	var made *encoding
	for {
		first := e.encodings.Load()
		for n := first; n != nil; n = n.next {
			if n.format == f {
				return n
			}
		}
		if made == nil {
			made = &encoding{format: f}
		}
		made.next = first
		if e.encodings.CompareAndSwap(first, made) {
			return made
		}
	}
}
