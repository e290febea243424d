package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/storage"
)

// checkPeriod is upstream's: a check comes so long after the last one, or up to half as long again.
const checkPeriod = 5 * time.Minute

// errInconsistent: a cache has something else than the store. What readers get of it can't be trusted.
var errInconsistent = errors.New("a cache differs from the store and is refilled")

// difference is the first between a cache and the store at one revision. A key that only one of them has is at revision
// 0 in the other.
type difference struct {
	key            string
	cached, stored int64
}

// check compares every cache with the store, now and then (as DetectCacheInconsistency has it).
func (s *Set) check(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.config.Clock.After(checkPeriod + rand.N(checkPeriod/2)):
		}
		s.mu.Lock()
		caches := s.caches
		s.mu.Unlock()
		for _, c := range caches {
			s.checkOne(ctx, c)
		}
	}
}

// checkOne refills the caches if one differs from the store. That is tried once: a difference that is still there the
// next time would not be fixed by another refill.
func (s *Set) checkOne(ctx context.Context, c *Cache) {
	log := klog.FromContext(ctx)
	found, revision, err := c.compare(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.counts.unchecked.Add(1)
		log.Error(err, "Failed cache consistency check", "resource", c.resource)
	case found == difference{}:
		c.counts.same.Add(1)
		c.different = false
	default:
		c.counts.different.Add(1)
		log.Error(errInconsistent, "Failed cache consistency check", "resource", c.resource, "revision", revision,
			"key", found.key, "cached", found.cached, "stored", found.stored)
		if end := s.refill.Load(); end != nil && !c.different {
			(*end)(errInconsistent)
		}
		c.different = true
	}
}

// compare finds the first difference between the cache and the store, at the revision that the cache has reached.
func (c *Cache) compare(ctx context.Context) (difference, int64, error) {
	if !c.Ready() {
		return difference{}, 0, errors.New("the cache is not ready")
	}
	s, revision := c.state.snapshotNow()
	r := storage.Range{Prefix: c.keys.prefix, Revision: revision, Limit: loadPage}
	cached := s.items.Iter()
	defer cached.Release()
	more := cached.First()
	for {
		page, err := c.set.config.Store.List(ctx, r)
		if err != nil {
			return difference{}, revision, fmt.Errorf("at revision %d: %w", revision, err)
		}
		for i := range page.Items {
			stored := &page.Items[i]
			if c.state.broken.at(stored.Key) != nil {
				continue // which reads are told
			}
			switch {
			case !more || cached.Item().Key > stored.Key:
				return difference{key: stored.Key, stored: stored.Revision}, revision, nil
			case cached.Item().Key < stored.Key:
				return difference{key: cached.Item().Key, cached: cached.Item().Revision}, revision, nil
			case cached.Item().Revision != stored.Revision:
				return difference{stored.Key, cached.Item().Revision, stored.Revision}, revision, nil
			}
			more = cached.Next()
		}
		if !page.More {
			break
		}
		r.From = page.Items[len(page.Items)-1].Key + "\x00"
	}
	if more {
		return difference{key: cached.Item().Key, cached: cached.Item().Revision}, revision, nil
	}
	return difference{}, revision, nil
}
