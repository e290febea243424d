package cache

import (
	"context"
	"errors"
	"strings"
	"time"

	"quintet.dev/quintet/components/apiserver/storage"
)

// mendPause is for how long it isn't tried again to decrypt what could not be.
const mendPause = 500 * time.Millisecond

// retryDecrypt reads again the values below a prefix that could not be decrypted, as the key service may be back, or
// may have got the missing key. It is called for reads that would fail otherwise, and does nothing shortly after
// another attempt.
func (c *Cache) retryDecrypt(ctx context.Context, prefix string) {
	for key, revision := range c.state.broken.sealed(prefix, c.set.config.Clock.Now()) {
		kv, err := c.set.config.Store.Get(ctx, key)
		if errors.Is(err, storage.ErrNotFound) || err == nil && kv.Revision != revision {
			continue // of which the watch tells
		}
		if err != nil {
			return
		}
		e, err := c.codec.decode(&kv)
		if err != nil {
			return
		}
		c.state.putBack(e)
	}
}

// sealed are the keys below a prefix whose values can't be decrypted, with their revisions, if it is time to try that
// again.
func (b *broken) sealed(prefix string, now time.Time) map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.keys) == 0 || now.Sub(b.asked) < mendPause {
		return nil
	}
	var out map[string]int64
	for key, why := range b.keys {
		if _, ok := why.err.(undecrypted); ok && strings.HasPrefix(key, prefix) {
			if out == nil {
				out, b.asked = map[string]int64{}, now
			}
			out[key] = why.revision
		}
	}
	return out
}

// mended forgets that the value that a key has since a revision can't be read, and tells whether that was recorded. The
// findings of a list in progress stay.
func (b *broken) mended(key string, revision int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	why, ok := b.keys[key]
	if ok = ok && why.revision == revision; ok {
		delete(b.keys, key)
	}
	return ok
}

// Fault is why PeekList doesn't show all that there is in a namespace ("" for all): something can't be read, or nothing
// has come yet, though that was waited for. It is nil if PeekList does.
func (c *Cache) Fault(ctx context.Context, namespace string) error {
	if err := c.WaitReady(ctx); err != nil {
		return c.errs.store(err, "list")
	}
	prefix := c.keys.scope(namespace)
	c.retryDecrypt(ctx, prefix)
	return c.state.broken.below(prefix)
}
