package cache

import (
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/storage"
)

// loadPage is how many keys are asked for at once when a cache is filled.
const loadPage = 2000

// load fills all caches with one list over the whole prefix, and returns its revision.
func (s *Set) load(ctx context.Context) (int64, error) {
	for {
		s.mu.Lock()
		s.running = true
		caches := s.caches
		r := *s.routes.Load()
		s.mu.Unlock()

		for _, c := range caches {
			c.state.broken.begin()
		}
		pages, revision, err := s.list(ctx, s.prefix, func(key string) []*Cache { return r.of(key[len(s.prefix):]) })
		if err != nil {
			return 0, err
		}
		if s.added(caches) {
			// what came to the new one between its own list and this one is in neither, nor in the watch from here on
			continue
		}
		contents := make(map[*Cache][]*Entry, len(caches))
		for _, page := range pages {
			for _, f := range *page {
				contents[f.cache] = append(contents[f.cache], f.entry)
			}
		}
		s.reached.withdraw(revision)
		if revision < s.past.Load() {
			s.past.Store(0) // it was of a store that went back
		}
		for _, c := range caches {
			c.state.install(contents[c], revision)
		}
		return revision, nil
	}
}

// added tells whether there are caches now that were not among these.
func (s *Set) added(before []*Cache) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.caches, func(c *Cache) bool { return !slices.Contains(before, c) })
}

// loadOne fills a cache that came when the others were there already, unless it is removed before. Events that arrive
// meanwhile are kept by the cache.
func (s *Set) loadOne(ctx context.Context, c *Cache) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.work.Go(func() {
		select {
		case <-c.state.closed:
			cancel()
		case <-ctx.Done():
		}
	})
	for ctx.Err() == nil {
		c.state.broken.begin()
		pages, revision, err := s.list(ctx, c.keys.prefix, func(string) []*Cache { return []*Cache{c} })
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to list the store; retrying", "resource", c.resource)
			s.pause(ctx)
			continue
		}
		var content []*Entry
		for _, page := range pages {
			for _, f := range *page {
				content = append(content, f.entry)
			}
		}
		c.state.installFirst(content, revision)
		return
	}
}

// found is an object in the store, and a cache that it belongs to.
type found struct {
	entry *Entry
	cache *Cache
}

// list reads all keys below prefix that can be read, at one revision. Pages are decoded while the next are on their
// way.
func (s *Set) list(ctx context.Context, prefix string, owners func(key string) []*Cache) ([]*[]found, int64, error) {
	var pages []*[]found
	var decoding errgroup.Group
	decoding.SetLimit(runtime.GOMAXPROCS(0))
	r := storage.Range{Prefix: prefix, Limit: loadPage}
	for {
		page, err := s.config.Store.List(ctx, r)
		if err != nil {
			_ = decoding.Wait()
			return nil, 0, err
		}
		out := &[]found{}
		pages = append(pages, out)
		decoding.Go(func() error {
			*out = make([]found, 0, len(page.Items))
			for i := range page.Items {
				for _, c := range owners(page.Items[i].Key) {
					if e := c.state.read(&page.Items[i]); e != nil {
						*out = append(*out, found{e, c})
					}
				}
			}
			return nil
		})
		r.Revision = page.Revision
		if !page.More {
			return pages, page.Revision, decoding.Wait()
		}
		r.From = page.Items[len(page.Items)-1].Key + "\x00"
	}
}
