package cache

import (
	"context"
	"errors"
	"hash/maphash"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/tracing"
)

// Create stores a new object. obj belongs to the cache from then on; its resource version is dropped, and it gets the
// defaults that are set when it is read from the store.
func (c *Cache) Create(ctx context.Context, key string, obj api.Object, ttl TTL) (*Entry, error) {
	ctx, span := tracing.Part(ctx, "Create etcd3")
	defer span.End()
	obj, value, err := c.codec.encode(obj)
	if err != nil {
		return nil, err
	}
	span.AddEvent("Encode succeeded")
	c.codec.rereadValue(obj, value)
	e, err := c.ownWrites.put(key, obj, value, func() (int64, error) {
		return c.set.config.Store.Create(ctx, key, value, ttl)
	})
	if errors.Is(err, storage.ErrExists) {
		_, name := c.keys.names(key)
		return nil, apierrors.NewAlreadyExists(c.resource, name)
	}
	return e, c.errs.write(err, "create")
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
			next, unchanged = codec.ShallowCopy(next), false // it is written again as it is
		}
		if refused == nil && !unchanged {
			if next, value, err = c.codec.encode(next); err != nil {
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
		c.codec.rereadValue(next, value)
		expected := current.Revision
		span.AddEvent("Transaction prepared")
		e, failed := c.ownWrites.put(key, next, value, func() (int64, error) {
			return c.set.config.Store.Update(ctx, key, value, expected, life)
		})
		if failed == nil {
			return e, nil
		}
		current, err = c.stored.afterConflict(key, failed, "update")
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
			c.ownWrites.wrote(revision, before)
			return atRevision(current, revision), nil
		}
		current, err = c.stored.afterConflict(key, failed, "delete")
		live = true
	}
	return nil, err
}

// forWrite returns the entry to begin a write with: what the cache has, though it may be old, else what the store has.
func (c *Cache) forWrite(ctx context.Context, key string) (current *Entry, live bool, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, false, c.errs.store(err, "get")
	}
	if e, ok := c.Peek(key); ok && !c.readsFromStore() {
		return e, false, nil
	}
	current, err = c.stored.get(ctx, key)
	return current, true, err
}

// newest reports whether current is the state that the store has now, and returns that.
func (c *Cache) newest(ctx context.Context, key string, current *Entry, live bool) (*Entry, bool, error) {
	if live {
		return current, true, nil
	}
	now, err := c.stored.get(ctx, key)
	if err != nil {
		return nil, false, err
	}
	if now.Revision == current.Revision && now.sum == current.sum {
		return current, true, nil
	}
	return now, false, nil
}

var seed = maphash.MakeSeed()

// sumOf tells values apart.
func sumOf(value []byte) uint64 { return maphash.Bytes(seed, value) }

// WaitForOwnWrites reports whether the cache lacked something that was written through it before, and waits for that:
// its writers are answered a moment earlier. It waits no longer than readers do.
func (c *Cache) WaitForOwnWrites(ctx context.Context) (waited bool) {
	revision := c.ownWrites.newest.Load()
	if c.set.Revision() >= revision {
		return false
	}
	if err := c.fresh.reach(ctx, revision, c.set.timeout); isTooLarge(err) {
		// The store went back, or its watch stands still: once is enough to wait for that.
		c.ownWrites.newest.CompareAndSwap(revision, 0)
	}
	return true
}
