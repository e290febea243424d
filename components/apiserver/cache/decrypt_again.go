package cache

import "context"

// replaceable tells whether the objects lie in the store encrypted under keys that may be replaced while the server
// runs.
func (c *Cache) replaceable() bool {
	return c.set.config.Replaceable != nil && c.set.config.Replaceable(c.resource)
}

// readsFromStore tells whether gets, lists and writes are to decrypt the stored values: upstream has no cache then that
// could go on to answer.
func (c *Cache) readsFromStore() bool { return c.cacheDisabled && c.replaceable() }

// decrypted returns the newest of an object out of the store, as upstream does for all gets of the newest: whether the
// key is still there that it was encrypted with is not to be known from the cache, which goes on to answer lists.
func (c *Cache) decrypted(ctx context.Context, key string) (*Entry, error) {
	kv, err := c.stored.read(ctx, key)
	if err != nil {
		return nil, err
	}
	if e, ok := c.Peek(key); ok && e.Revision == kv.Revision && kv.Unreadable == nil {
		return e, nil // whose encodings are shared
	}
	return c.stored.entry(&kv)
}

// Confirm fails if an object can't be read from the store any more, as its encryption key was lost. Where keys aren't
// replaced it reads nothing.
func (c *Cache) Confirm(ctx context.Context, key string) error {
	if !c.replaceable() {
		return nil
	}
	_, err := c.decrypted(ctx, key)
	return err
}
