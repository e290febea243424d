package cache

import (
	"context"
	"errors"
	"hash/maphash"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/tracing"
)

// Create stores a new object. obj belongs to the cache from then on; its resource version is dropped, and it gets the
// defaults that are set when it is read from the store.
func (c *Cache) Create(ctx context.Context, key string, obj api.Object, ttl TTL) (*Entry, error) {
	ctx, span := tracing.Part(ctx, "Create etcd3")
	defer span.End()
	obj, value, err := c.encode(obj)
	if err != nil {
		return nil, err
	}
	span.AddEvent("Encode succeeded")
	c.reread(obj, value)
	e, err := c.put(key, obj, value, func() (int64, error) { return c.set.config.Store.Create(ctx, key, value, ttl) })
	if errors.Is(err, storage.ErrExists) {
		_, name := c.names(key)
		return nil, apierrors.NewAlreadyExists(c.resource, name)
	}
	return e, c.errWrite(err, "create")
}

// Update replaces an object by what mutate makes of it; see Mutate. If that is the same, nothing is written and the
// current entry is returned. ttl may be nil.
func (c *Cache) Update(ctx context.Context, key string, ttl func(api.Object) TTL, mutate Mutate) (*Entry, error) {
	ctx, span := tracing.Part(ctx, "GuaranteedUpdate etcd3")
	defer span.End()
	current, live, err := c.forWrite(ctx, key)
	span.AddEvent("initial value restored")
	for err == nil {
		next, refused := mutate(current)
		var value []byte
		unchanged := next == current.Object
		if unchanged && current.sum == 0 {
			next, unchanged = serial.ShallowCopy(next), false // it is written again as it is
		}
		if refused == nil && !unchanged {
			if next, value, err = c.encode(next); err != nil {
				return nil, err
			}
			unchanged = current.sum == sumOf(value)
		}
		if refused != nil || unchanged {
			// Nothing is to be written: that counts only if it was said of the newest state.
			var isNewest bool
			if current, isNewest, err = c.newest(ctx, key, current, live); isNewest && err == nil {
				return entryOr(current, refused)
			}
			live = true
			continue
		}
		var life TTL
		if ttl != nil {
			life = ttl(next)
		}
		c.reread(next, value)
		expected := current.Revision
		span.AddEvent("Transaction prepared")
		e, failed := c.put(key, next, value, func() (int64, error) {
			return c.set.config.Store.Update(ctx, key, value, expected, life)
		})
		if failed == nil {
			return e, nil
		}
		current, err = c.afterConflict(key, failed, "update")
		live = true
	}
	return nil, err
}

func entryOr(e *Entry, err error) (*Entry, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Delete removes an object and returns its last state, at the resource version of its removal. check may refuse, and
// may be called several times; nil allows all.
func (c *Cache) Delete(ctx context.Context, key string, check func(current *Entry) error) (*Entry, error) {
	current, live, err := c.forWrite(ctx, key)
	for err == nil {
		if check != nil {
			if refused := check(current); refused != nil {
				var isNewest bool
				if current, isNewest, err = c.newest(ctx, key, current, live); isNewest && err == nil {
					return nil, refused
				}
				live = true
				continue
			}
		}
		before := c.set.Revision()
		revision, failed := c.set.config.Store.Delete(ctx, key, current.Revision)
		if failed == nil {
			c.wrote(revision, before)
			return atRevision(current, revision), nil
		}
		current, err = c.afterConflict(key, failed, "delete")
		live = true
	}
	return nil, err
}

// forWrite returns the entry to begin a write with: what the cache has, though it may be old, else what the store has.
func (c *Cache) forWrite(ctx context.Context, key string) (current *Entry, live bool, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, false, c.errStore(err, "get")
	}
	if e, ok := c.Peek(key); ok && !c.readsFromStore() {
		return e, false, nil
	}
	current, err = c.live(ctx, key)
	return current, true, err
}

// newest reports whether current is the state that the store has now, and returns that.
func (c *Cache) newest(ctx context.Context, key string, current *Entry, live bool) (*Entry, bool, error) {
	if live {
		return current, true, nil
	}
	now, err := c.live(ctx, key)
	if err != nil {
		return nil, false, err
	}
	if now.Revision == current.Revision && now.sum == current.sum {
		return current, true, nil
	}
	return now, false, nil
}

// live reads an entry from the store.
func (c *Cache) live(ctx context.Context, key string) (*Entry, error) {
	kv, err := c.set.config.Store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, c.errNotFound(key)
	}
	if err != nil {
		return nil, c.errStore(err, "get")
	}
	return c.current(&kv)
}

// current decodes what the store has; of an object that can't be read nothing can be made.
func (c *Cache) current(kv *storage.KeyValue) (*Entry, error) {
	e, err := c.decode(kv)
	if err != nil {
		return nil, errUnreadable(err)
	}
	return e, nil
}

// afterConflict returns the entry to try again with, out of what the failed transaction found.
func (c *Cache) afterConflict(key string, failed error, verb string) (*Entry, error) {
	var conflict *storage.ConflictError
	if !errors.As(failed, &conflict) {
		return nil, c.errWrite(failed, verb)
	}
	if conflict.Current.Revision == 0 {
		return nil, c.errNotFound(key)
	}
	return c.current(&conflict.Current)
}

// encode makes the stored form of an object that belongs to the cache, and what an entry may have of it.
func (c *Cache) encode(obj api.Object) (api.Object, []byte, error) {
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

// unshared is how many objects of a kind are written before what is alike in them is looked for: in so few it doesn't
// pay, and a new cluster starts with no more.
const unshared = 100

// put writes, and makes the entry that the watch will bring too.
func (c *Cache) put(key string, obj api.Object, value []byte, write func() (int64, error)) (*Entry, error) {
	if c.puts.Add(1) > unshared {
		c.set.parts.Share(obj)
	}
	f := c.pendingWrites.begin(key, obj, value)
	before := c.set.Revision()
	revision, err := write()
	if err != nil {
		c.pendingWrites.end(key, f)
		return nil, err
	}
	c.wrote(revision, before)
	e := f.complete(key, revision)
	if c.set.Revision() >= revision {
		c.pendingWrites.end(key, f)
	}
	return e, nil
}

var seed = maphash.MakeSeed()

// sumOf tells values apart.
func sumOf(value []byte) uint64 { return maphash.Bytes(seed, value) }

// wrote notes the revision of a write that is done, before which the caches had reached another.
func (c *Cache) wrote(revision, before int64) {
	for last := c.written.Load(); last < revision && !c.written.CompareAndSwap(last, revision); {
		last = c.written.Load()
	}
	c.set.wrote(revision, before)
}

// WaitForOwnWrites reports whether the cache lacked something that was written through it before, and waits for that:
// its writers are answered a moment earlier. It waits no longer than readers do.
func (c *Cache) WaitForOwnWrites(ctx context.Context) (waited bool) {
	revision := c.written.Load()
	if c.set.Revision() >= revision {
		return false
	}
	if err := c.reach(ctx, revision, c.set.timeout); isTooLarge(err) {
		// The store went back, or its watch stands still: once is enough to wait for that.
		c.written.CompareAndSwap(revision, 0)
	}
	return true
}
