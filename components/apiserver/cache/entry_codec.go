package cache

import (
	"bytes"
	"sync/atomic"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/internal/alike"
)

// entryCodec makes entries of what is stored, and what is stored of objects. What it has encoded it decodes to the same
// object.
type entryCodec struct {
	kind        *api.Kind
	media       string // of the stored values
	stored      *codec.Storage
	parts       *alike.Pool
	undecodable atomic.Int64 // tries to decode a value that could not be
}

// decode makes the entry of a stored value.
func (c *entryCodec) decode(kv *storage.KeyValue) (*Entry, error) {
	if kv.Unreadable != nil {
		return nil, undecrypted{kv.Unreadable}
	}
	if e := c.takeMade(kv); e != nil {
		return e, nil
	}
	obj, err := c.stored.Decode(kv.Value)
	if bytes.HasPrefix(kv.Value, encrypted) && err != nil {
		return nil, undecrypted{errEncrypted}
	}
	if err != nil {
		c.undecodable.Add(1)
	}
	if err != nil && c.kind.Custom != nil {
		return nil, undecoded{err}
	}
	if err != nil {
		return nil, err
	}
	c.parts.Share(obj)
	obj.SetResourceVersion(formatRevision(kv.Revision))
	e := &Entry{Key: kv.Key, Revision: kv.Revision, Object: obj, size: len(kv.Value)}
	if !kv.Stale {
		e.sum = sumOf(kv.Value)
	}
	c.leaveMade(kv, e)
	return e, nil
}

// encode makes the stored form of an object that belongs to the cache, and what an entry may have of it.
func (c *entryCodec) encode(obj api.Object) (api.Object, []byte, error) {
	obj, err := c.kind.ToStore(obj)
	if err != nil {
		return nil, nil, err
	}
	obj.SetResourceVersion("")
	obj.SetSelfLink("")
	obj.GetObjectKind().SetGroupVersionKind(c.kind.Hub.WithKind(c.kind.Name))
	value, err := c.stored.Encode(obj)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	return obj, value, nil
}

// reread makes of an object that is written what is read from the store.
func (c *entryCodec) reread(obj api.Object) {
	c.kind.Reread(obj, c.media != runtime.ContentTypeProtobuf)
}

// rereadValue is reread for an object that is written as value.
func (c *entryCodec) rereadValue(obj api.Object, value []byte) {
	c.reread(obj)
	if u, ok := obj.(*unstructured.Unstructured); ok && !codec.IsCBOR(value) {
		if read, changed := rereadNumbers(u.Object); changed {
			u.Object = read.(map[string]any)
		}
	}
}

// leaveMade lets caches of other stores in this process that share the value share the object too, as long as an entry
// has it. What is read of a custom resource depends on its definition, of which each server has its own.
func (c *entryCodec) leaveMade(kv *storage.KeyValue, e *Entry) {
	if c.kind.Custom == nil {
		kv.Memo.Leave(weak.Make(e))
	}
}

// takeMade makes an entry out of one that another cache has of the same value; nil if there is none.
func (c *entryCodec) takeMade(kv *storage.KeyValue) *Entry {
	pointer, ok := kv.Memo.Made().(weak.Pointer[Entry])
	if !ok || c.kind.Custom != nil {
		return nil
	}
	other := pointer.Value()
	if other == nil || other.Revision != kv.Revision ||
		other.Object.GetObjectKind().GroupVersionKind() != c.kind.Hub.WithKind(c.kind.Name) {
		return nil
	}
	return &Entry{Key: kv.Key, Revision: kv.Revision, Object: other.Object, sum: other.sum, size: other.size}
}
