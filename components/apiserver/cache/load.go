package cache

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/storage"
)

// loadPage is how many keys are asked for at once when a cache is filled.
const loadPage = 2000

// load fills all caches with one list over the whole prefix, and returns its revision.
func (s *Set) load(ctx context.Context) (int64, error) {
	s.mu.Lock()
	s.running = true
	caches := s.caches
	routes := *s.routes.Load()
	s.mu.Unlock()

	for _, c := range caches {
		c.broken.begin()
	}
	pages, revision, err := s.list(ctx, s.prefix, func(key string) *Cache { return route(routes, key[len(s.prefix):]) })
	if err != nil {
		return 0, err
	}
	contents := make(map[*Cache][]*Entry, len(caches))
	for _, page := range pages {
		for i, e := range page.entries {
			if e != nil {
				contents[page.caches[i]] = append(contents[page.caches[i]], e)
			}
		}
	}
	for _, c := range caches {
		c.install(contents[c], revision)
	}
	s.reached.retreat(revision)
	return revision, nil
}

// loadOne fills a cache that came when the others were there already. Events that arrive meanwhile are kept by the cache.
func (s *Set) loadOne(ctx context.Context, c *Cache) {
	for ctx.Err() == nil {
		c.broken.begin()
		pages, revision, err := s.list(ctx, c.prefix, func(string) *Cache { return c })
		if err != nil {
			klog.FromContext(ctx).Error(err, "Listing what is stored; trying again", "resource", c.resource)
			s.pause(ctx)
			continue
		}
		var content []*Entry
		for _, page := range pages {
			for _, e := range page.entries {
				if e != nil {
					content = append(content, e)
				}
			}
		}
		c.installFirst(content, revision)
		return
	}
}

// loaded is a decoded page; entries without a cache, or that can't be read, are nil.
type loaded struct {
	entries []*Entry
	caches  []*Cache
}

// list reads all keys below prefix at one revision. Pages are decoded while the next are on their way.
func (s *Set) list(ctx context.Context, prefix string, owner func(key string) *Cache) ([]*loaded, int64, error) {
	var pages []*loaded
	var decoding errgroup.Group
	decoding.SetLimit(runtime.GOMAXPROCS(0))
	r := storage.Range{Prefix: prefix, Limit: loadPage}
	for {
		page, err := s.config.Store.List(ctx, r)
		if err != nil {
			_ = decoding.Wait()
			return nil, 0, err
		}
		out := &loaded{entries: make([]*Entry, len(page.Items)), caches: make([]*Cache, len(page.Items))}
		pages = append(pages, out)
		decoding.Go(func() error {
			for i := range page.Items {
				if c := owner(page.Items[i].Key); c != nil {
					out.caches[i] = c
					out.entries[i] = c.read(&page.Items[i])
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
