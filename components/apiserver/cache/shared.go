package cache

import (
	"weak"

	"quintet.dev/quintet/components/apiserver/storage"
)

// leaveMade lets caches of other stores in this process that share the value share the object too, as long as an entry
// has it. What is read of a custom resource depends on its definition, of which each server has its own.
func (c *Cache) leaveMade(kv *storage.KeyValue, e *Entry) {
	if c.kind.Custom == nil {
		kv.Memo.Leave(weak.Make(e))
	}
}

// takeMade makes an entry out of one that another cache has of the same value; nil if there is none.
func (c *Cache) takeMade(kv *storage.KeyValue) *Entry {
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
