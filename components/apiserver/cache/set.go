package cache

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/internal/alike"
)

// Config of a Set.
type Config struct {
	Store storage.Store
	// Prefix of all keys, without a slash at its end; "/registry" if empty.
	Prefix string
	// Media is the media type of objects in the store, for kinds that have that form; protobuf if empty.
	Media string
	// CBOR writes custom resources so, whatever Media is.
	CBOR bool
	// Encodings bounds the memory of encoded objects, in bytes; 32 MiB if 0.
	Encodings int64
	// Events is how many events a resource remembers at most; 102,400 if 0, as with upstream.
	Events int
	// Direct tells of which kinds a read is never older than the store, whatever it asks for; nil means of none.
	Direct func(kind *api.Kind) bool
	// Replaceable tells which resources are stored encrypted under keys that may be replaced; nil means none. Their
	// objects are decrypted again by gets of the newest state.
	Replaceable func(resource schema.GroupResource) bool
	// Progress tells whether the store's word on how far its watch is can be relied on; nil means that it can. Where it
	// can't, reads that want the newest are made in the store.
	Progress func() bool
	// NoChecks turns off the comparison of the caches with the store.
	NoChecks bool
	// Clock is for bookmarks and timeouts; the real one if nil.
	Clock clock.WithTicker
}

// Defaults of Config.
const (
	defaultPrefix    = "/registry"
	defaultEncodings = 32 << 20
	defaultEvents    = 100 << 10
)

// slowStart is how long the first list may take before the log says so.
const slowStart = 5 * time.Second

// retryPause is waited before the store is asked again after a failure.
const retryPause = 50 * time.Millisecond

// mediaOf is the media type of a kind's objects in the store.
func (c *Config) mediaOf(kind *api.Kind) string {
	if c.CBOR && kind.Custom != nil {
		return runtime.ContentTypeCBOR
	}
	return c.Media
}

// Set is the caches of all resources of a store.
type Set struct {
	config            Config
	prefix            string // with a slash
	budget            *budget
	parts             alike.Pool // of the objects in all caches
	reached           revisionWaiter
	past              atomic.Int64 // lists of revisions before it are refused
	revisionCoalescer revisionCoalescer
	// bookmarks by which the store told of progress.
	bookmarks atomic.Int64
	refill    atomic.Pointer[context.CancelCauseFunc] // ends the watch of the store
	// timeout is how long a read waits for the cache to reach a revision.
	timeout time.Duration

	// base ends with Run; work counts what Run waits for.
	base   context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	running bool
	caches  []*Cache               // replaced, never changed
	routes  atomic.Pointer[routes] // replaced, never changed
}

// NewSet makes an empty set.
func NewSet(config Config) (*Set, error) {
	if config.Store == nil {
		return nil, errors.New("cache: Config.Store is missing")
	}
	if config.Prefix == "" {
		config.Prefix = defaultPrefix
	}
	if config.Media == "" {
		config.Media = runtime.ContentTypeProtobuf
	}
	if config.Encodings == 0 {
		config.Encodings = defaultEncodings
	}
	if config.Events == 0 {
		config.Events = defaultEvents
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	config.Store = timed{config.Store}
	s := &Set{config: config, prefix: strings.TrimSuffix(config.Prefix, "/") + "/", budget: newBudget(config.Encodings),
		timeout: freshTimeout}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.revisionCoalescer = revisionCoalescer{ask: s.ask, base: s.base, timeout: askTimeout}
	s.routes.Store(&routes{})
	return s, nil
}

// Add makes the cache of a stored kind. It may be called at any time; if the set runs already, the cache gets ready on
// its own.
func (s *Set) Add(kind *api.Kind) *Cache {
	c := newCache(s, kind)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeRoutes(func(r routes) { r[kind.Prefix+"/"] = append(slices.Clip(r[kind.Prefix+"/"]), c) })
	s.caches = append(slices.Clip(s.caches), c)
	if s.running {
		s.work.Go(func() { s.loadOne(s.base, c) })
	}
	return c
}

// Unstored returns a cache of a kind of which nothing is stored. It is outside of the set, and only tells formats.
func (s *Set) Unstored(kind *api.Kind) *Cache { return newCache(s, kind) }

// Remove ends all watches of a resource and forgets it, once the requests that use the cache have left it.
func (s *Set) Remove(c *Cache) { c.retire(func() { s.drop(c) }) }

func (s *Set) drop(c *Cache) {
	isIt := func(other *Cache) bool { return other == c }
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeRoutes(func(r routes) {
		key := c.kind.Prefix + "/"
		if r[key] = slices.DeleteFunc(slices.Clone(r[key]), isIt); len(r[key]) == 0 {
			delete(r, key)
		}
	})
	s.caches = slices.DeleteFunc(slices.Clone(s.caches), isIt)
	c.state.close()
}

func (s *Set) changeRoutes(change func(routes)) {
	r := maps.Clone(*s.routes.Load())
	change(r)
	s.routes.Store(&r)
}

// routes are the caches by the prefix of their keys in that of the set ("pods/"): one, or several while one is
// replaced.
type routes map[string][]*Cache

// of finds the caches that a key belongs to: prefixes have one element ("pods/") or two ("services/specs/").
func (r routes) of(key string) []*Cache {
	end := strings.IndexByte(key, '/') + 1
	if end == 0 {
		return nil
	}
	if caches := r[key[:end]]; caches != nil {
		return caches
	}
	next := strings.IndexByte(key[end:], '/') + 1
	if next == 0 {
		return nil
	}
	return r[key[:end+next]]
}

// Run lists and follows the store until ctx ends. It returns only errors that retries can't fix.
func (s *Set) Run(ctx context.Context) error {
	defer s.work.Wait()
	defer s.cancel()
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	defer s.end()
	s.work.Go(func() { s.forget(s.base) })
	if !s.config.NoChecks {
		s.work.Go(func() { s.check(s.base) })
	}
	slow := time.AfterFunc(slowStart, func() {
		klog.FromContext(ctx).Info(
			"Still waiting for the store: is it running, and are its address and certificates right?")
	})
	defer slow.Stop()
	for s.base.Err() == nil {
		revision, err := s.load(s.base)
		slow.Stop()
		if err == nil {
			err = s.follow(s.base, revision)
		}
		if errors.Is(err, storage.ErrClosed) {
			return err
		}
		if s.base.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to watch the store; listing again")
			s.pause(s.base)
		}
	}
	return nil
}

// forgetPeriod is how often caches that see no events are looked through for what may be forgotten.
const forgetPeriod = 30 * time.Second

func (s *Set) forget(ctx context.Context) {
	ticker := s.config.Clock.NewTicker(forgetPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C():
			s.mu.Lock()
			caches := s.caches
			s.mu.Unlock()
			for _, c := range caches {
				c.state.forget(now)
			}
		}
	}
}

// end closes all caches: their watchers end, and waiting reads fail.
func (s *Set) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.caches {
		c.state.close()
	}
}

func (s *Set) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.config.Clock.After(retryPause):
	}
}

// follow applies the events after revision until the watch ends.
func (s *Set) follow(ctx context.Context, revision int64) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.refill.Store(&end) // before the caches are at a revision that the store could be found to have gone back from
	s.reached.advance(revision)
	w := s.config.Store.Watch(ctx, s.prefix, revision)
	for batch := range w.Events() {
		if batch[len(batch)-1].Revision < s.Revision() { // by a member that is behind, or by a store that went back
			s.work.Go(func() { _, _ = s.ask(ctx) })
		}
		s.apply(batch)
	}
	if cause := context.Cause(ctx); errors.Is(cause, errWentBack) || errors.Is(cause, errInconsistent) {
		return cause
	}
	return w.Err()
}

// apply brings all caches to the revision of a batch, then wakes the readers that wait for it.
func (s *Set) apply(batch []storage.Event) {
	r := *s.routes.Load()
	for from := 0; from < len(batch); {
		to := from + 1
		for to < len(batch) && batch[to].Revision == batch[from].Revision {
			to++
		}
		s.applyAt(r, batch[from:to])
		from = to
	}
	s.reached.advance(batch[len(batch)-1].Revision)
}

// applyAt applies what happened at one revision: one event for nearly all, several where the store takes away all keys
// of a lease.
func (s *Set) applyAt(r routes, events []storage.Event) {
	if e := &events[0]; len(events) == 1 && e.Type != storage.Progress {
		for _, c := range r.of(e.Key[len(s.prefix):]) {
			c.state.apply(*e)
		}
		return
	}
	of := map[*Cache][]storage.Event{}
	for _, e := range events {
		if e.Type == storage.Progress {
			s.bookmarks.Add(1)
			continue
		}
		for _, c := range r.of(e.Key[len(s.prefix):]) {
			of[c] = append(of[c], e)
		}
	}
	for c, own := range of {
		c.state.apply(own...)
	}
}

// WaitReady returns when all caches that were added before Run have their objects.
func (s *Set) WaitReady(ctx context.Context) error {
	s.mu.Lock()
	caches := s.caches
	s.mu.Unlock()
	for _, c := range caches {
		if err := c.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Forgotten tells that the store knows nothing of what was before a revision. Lists of that time end then, also those
// that could go on from here: clients see the same whichever server they ask.
func (s *Set) Forgotten(revision int64) { s.past.Store(revision) }

// Revision returns the revision that all caches have reached.
func (s *Set) Revision() int64 { return s.reached.revision.Load() }
