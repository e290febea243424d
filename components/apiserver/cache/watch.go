package cache

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/tracing"
)

// Limits of a watcher.
const (
	// maxBacklog is how many events a watcher may leave lying before it is ended.
	maxBacklog = 10_000
	// keptQueue is how long a queue may be whose memory is used again.
	keptQueue = 64
	// initialChunk is how many initial events Next returns at once.
	initialChunk = 500
	// bookmarkPeriod is upstream's; a watch with a deadline gets one more, bookmarkEarly before it.
	bookmarkPeriod = time.Minute
	bookmarkEarly  = 2 * time.Second
)

// Watcher delivers the events of a watch. Next is for one goroutine.
type Watcher struct {
	cache *watchCache
	match matcher
	after int64 // events up to this revision are known to the client

	// Of Next alone: what is still to be said of the initial state, and when the next bookmark is due.
	initial  *snapshot
	revision int64 // of initial
	from     string
	mark     bool // say when the initial events are over
	scope    string
	timer    clock.Timer
	deadline time.Time
	batched  bool // by the time of what Next has returned

	behind func()
	slot   place // where the registry has it; guarded by Cache.mu

	mu            sync.Mutex
	queue         []Event
	ripe          int     // how many events of queue may be read; the others wait for the next batch
	queuedBatched bool    // there were many watchers when queue was added to
	taken         []Event // is being read, spare was before
	spare         []Event
	err           error
	wake          chan struct{} // holds an item when there is something in queue or err
}

// Watch begins to watch. The watcher ends when it falls too far behind; it must be closed.
//
// The resource version says what the client knows: "" or "0" nothing, so that what exists comes first as Added events
// (the newest state for "", any for "0"); else the changes after it are sent. See WatchOptions.SendInitialEvents for
// the other forms.
func (c *Cache) Watch(ctx context.Context, o WatchOptions) (*Watcher, error) {
	ctx, span := tracing.Part(ctx, "cacher.Watch")
	defer span.End()
	var after int64
	if o.ResourceVersion != "" {
		var err error
		if after, err = parseRevision(o.ResourceVersion); err != nil {
			return nil, errUnparsed(err)
		}
	}
	listed := o.SendInitialEvents != nil && *o.SendInitialEvents
	if err := c.fresh.waitForWatch(ctx, o.ResourceVersion, listed); err != nil {
		return nil, err
	}
	c.retryDecrypt(ctx, c.keys.scope(o.Namespace))
	w := &Watcher{
		cache: &c.state, match: newMatcher(c.kind, c.keys, o.Namespace, o.Predicate), after: after,
		wake: make(chan struct{}, 1), scope: o.Namespace, behind: o.Behind,
	}
	if o.Bookmarks && !c.cacheDisabled { // upstream's store sends none of its own accord
		w.deadline = o.Deadline
		w.timer = c.set.config.Clock.NewTimer(w.nextBookmark())
	}
	initial := listed || o.SendInitialEvents == nil && after == 0
	if err := c.state.join(w, initial); err != nil {
		w.Close()
		return nil, err
	}
	w.mark = listed && o.Bookmarks
	return w, nil
}

// Next returns what has happened since the last call, and waits if nothing has; that an initial state is empty it tells
// by no events. The events are shared: they must not be changed, and the slice is good until the next call. It returns
// ctx's error when ctx ends, and when the watch is over a status error to be sent to the client: Expired (410) if it
// fell behind.
func (w *Watcher) Next(ctx context.Context) ([]Event, error) {
	for {
		if w.initial != nil {
			return w.nextInitial()
		}
		select {
		case <-w.wake:
			if events, err := w.match.decide(w.take()); err != nil || len(events) > 0 {
				return events, err
			}
		case <-w.due():
			return w.match.decide(w.bookmark())
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Begun reports whether Next has returned all that tells of the initial state. It is for the goroutine of Next.
func (w *Watcher) Begun() bool { return w.initial == nil }

// nextInitial returns the next part of the initial state, and the mark of its end.
func (w *Watcher) nextInitial() ([]Event, error) {
	var events []Event
	var fault error
	w.initial.walk(w.cache.keys, w.scope, &w.match, w.from, func(e *Entry) bool {
		takes, err := w.match.takes(e)
		if takes {
			events = append(events, Event{Type: Added, Entry: e})
		}
		w.from, fault = e.Key+"\x00", err
		return len(events) < initialChunk && err == nil
	})
	if fault != nil {
		return nil, fault
	}
	w.cache.counts.initial.Add(int64(len(events)))
	if len(events) < initialChunk {
		w.initial = nil
		if w.mark {
			events = append(events, newBookmark(w.cache.kind, w.revision, true))
		}
	}
	return events, nil
}

func (w *Watcher) take() ([]Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.batched = w.queuedBatched; w.ripe == 0 {
		return nil, w.err
	}
	events, rest := w.queue[:w.ripe], w.queue[w.ripe:]
	if w.spare = nil; cap(w.taken) <= keptQueue {
		clear(w.taken) // what was returned before is done with
		w.spare = w.taken[:0]
	}
	w.taken, w.queue, w.ripe = events, nil, 0
	if len(rest) > 0 {
		w.queue, w.spare = append(w.spare, rest...), nil
		clear(rest)
	}
	if w.err != nil {
		w.notify()
	}
	return events, nil
}

func (w *Watcher) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

// due is when the next bookmark is; never for watches without.
func (w *Watcher) due() <-chan time.Time {
	if w.timer == nil {
		return nil
	}
	return w.timer.C()
}

func (w *Watcher) nextBookmark() time.Duration {
	if !w.deadline.IsZero() {
		left := w.deadline.Sub(w.cache.clock.Now()) - bookmarkEarly
		if left > 0 && left < bookmarkPeriod {
			return left
		}
	}
	return bookmarkPeriod
}

// bookmark returns what is queued, and a bookmark behind it: all events up to its revision are in the queue, or were,
// unless the watch has ended. That nothing is applied meanwhile keeps it from between two events of one revision.
func (w *Watcher) bookmark() ([]Event, error) {
	w.timer.Reset(w.nextBookmark())
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	revision := max(w.after, w.cache.revisionLocked())
	w.ripen()
	events, err := w.take()
	if err != nil || w.ended() {
		return events, err
	}
	return append(events, newBookmark(w.cache.kind, revision, false)), nil
}

// newBookmark makes an object that says nothing but a resource version.
func newBookmark(kind *api.Kind, revision int64, endOfInitial bool) Event {
	obj := kind.HubVersion().New()
	obj.GetObjectKind().SetGroupVersionKind(kind.Hub.WithKind(kind.Name))
	obj.SetResourceVersion(formatRevision(revision))
	if endOfInitial {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return Event{Type: Bookmark, Entry: &Entry{Revision: revision, Object: obj}}
}

// Close ends the watch.
func (w *Watcher) Close() {
	w.cache.mu.Lock()
	w.cache.watchers.remove(w)
	w.cache.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// push appends an event; batched tells whether the watcher is woken in batches. It returns whether the watcher is to be
// woken.
func (w *Watcher) push(e Event, batched bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queuedBatched = batched
	if w.err != nil {
		return false
	}
	if len(w.queue) >= maxBacklog {
		w.queue, w.ripe = nil, 0
		w.err = ErrBehind
		w.cache.counts.behind.Add(1)
		w.notify()
		if w.behind != nil {
			w.behind()
		}
		return false
	}
	if w.queue == nil {
		w.queue, w.spare = w.spare, nil
	}
	w.queue = append(w.queue, e)
	return len(w.queue) == w.ripe+1
}

// ripen lets all that is queued be read.
func (w *Watcher) ripen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ripe = len(w.queue)
}

// wakeUp wakes the watcher to read all that is queued now, and no more: so watchers that are woken together read the
// same.
func (w *Watcher) wakeUp() {
	w.ripen()
	w.notify()
}

// end lets what is queued be read, and then err.
func (w *Watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err, w.ripe = err, len(w.queue)
		w.notify()
	}
}

func (w *Watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
