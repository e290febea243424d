// Package queue holds the pods that wait for a node.
//
// A pod is active (to be tried next, by priority and then by age), backing off (to be tried soon), unschedulable (until
// an event comes that can help it), gated (until its gates are gone) or in flight (being tried or bound). Events that
// come while a pod is in flight are kept, so that a pod refused on old knowledge does not miss what would help it.
package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Config of a Queue.
type Config struct {
	Clock clock.WithTicker
	Hints Hints
	// Gate returns the plug-in that keeps a pod from being tried at all, and why; "" is none.
	Gate func(*snapshot.Pod) (plugin, reason string)
	// Less tells whether a pod is tried before another one; nil is First. It is called with the queue's lock held.
	Less func(a, b *Item) bool
	// InitialBackoff doubles with every failed try, up to MaxBackoff.
	InitialBackoff, MaxBackoff time.Duration
	// MaxUnschedulable is how long a pod stays unschedulable before it is retried without an event.
	MaxUnschedulable time.Duration
	// Incoming, if not nil, is called for every move of a pod, with the queue's name and the event.
	Incoming func(queue, cause string)
	// Hinted, if not nil, is told what some of the runs of queueing hints took.
	Hinted func(plugin, cause string, helps bool, took time.Duration)
}

type state int

const (
	active state = iota
	backingOff
	failing // backing off after an error, not a refusal
	unschedulable
	gated
	inFlight
)

// Item is a pod in the queue. Only the holder of a popped item may read it, until it gives it back.
type Item struct {
	Pod      *snapshot.Pod
	Attempts int
	// Since is when the pod could be tried first: the time that gates kept it is left out.
	Since time.Time
	// RefusedBy are the plug-ins that refused it at the last try.
	RefusedBy []string

	state      state
	gateReason string        // why the plug-in keeps it that it is gated by
	next       *snapshot.Pod // the pod's update that came in flight
	at         int           // in its heap
	queued     time.Time     // when it last got into a queue
	errors     int           // tries in a row that ended with an error
	refusals   int           // tries that ended with a refusal
	ready      time.Time     // end of its back-off
	sequence   uint64        // of the first event after it was popped
	deleted    bool
	activated  bool // by Activate, in flight
	flushed    bool // it was woken by the time, and has not been refused since
	pending    bool // it waits for what a plug-in has begun
}

// Queue is safe for concurrent use.
type Queue struct {
	config Config

	popper, runner chan struct{} // wakes Pop and Run

	mu      sync.Mutex
	scanned time.Time // when MaxUnschedulable was last checked
	items   map[types.UID]*Item
	active  heap
	backoff heap
	failing heap
	// waiting are the unschedulable items by each plug-in that refused them, "" for none.
	waiting map[string]map[*Item]struct{}
	parked  int
	gated   int

	flights  []*Item // in the order they were popped
	events   []Event
	sequence uint64 // of events[0]
	hinted   int    // runs of hints that could be measured
}

// window is the time within which the ends of back-offs are taken for the same, so that the more important of pods that
// back off is tried first (KEP-5142).
const window = time.Second

// New returns an empty queue.
func New(c Config) *Queue {
	if c.Less == nil {
		c.Less = First
	}
	byReady := func(a, b *Item) bool { return a.ready.Before(b.ready) }
	byWindow := func(a, b *Item) bool {
		if x, y := a.ready.Truncate(window), b.ready.Truncate(window); !x.Equal(y) {
			return x.Before(y)
		}
		return c.Less(a, b)
	}
	return &Queue{
		config:  c,
		popper:  make(chan struct{}, 1),
		runner:  make(chan struct{}, 1),
		scanned: c.Clock.Now(),
		items:   map[types.UID]*Item{},
		active:  heap{less: c.Less},
		backoff: heap{less: byWindow},
		failing: heap{less: byReady},
		waiting: map[string]map[*Item]struct{}{},
	}
}

// First orders by priority, then by how long the pod waits (plug-in PrioritySort).
func First(a, b *Item) bool {
	if a.Pod.Priority != b.Pod.Priority {
		return a.Pod.Priority > b.Pod.Priority
	}
	return a.queued.Before(b.queued)
}

// Queued is when the pod last got into a queue.
func (i *Item) Queued() time.Time { return i.queued }

// Ready is the end of its back-off.
func (i *Item) Ready() time.Time { return i.ready }

// Errors counts the tries in a row that ended with an error.
func (i *Item) Errors() int { return i.errors }

// Refusals counts the tries that ended with a refusal.
func (i *Item) Refusals() int { return i.refusals }

// GatedBy is the plug-in that keeps the pod from being tried, or "".
func (i *Item) GatedBy() string {
	if i.state == gated && len(i.RefusedBy) > 0 {
		return i.RefusedBy[0]
	}
	return ""
}

// Add takes in a pod that is new. One that is known is updated.
func (q *Queue) Add(p *snapshot.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.updateKnown(p) {
		return
	}
	now := q.config.Clock.Now()
	i := &Item{Pod: p, queued: now, at: -1}
	q.items[p.UID()] = i
	q.hold(i, active, "PodAdd")
}

// Update updates a pod that is known, and ignores others.
func (q *Queue) Update(p *snapshot.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.updateKnown(p)
}

// Delete forgets a pod: it is gone, bound, or no longer ours.
func (q *Queue) Delete(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i, ok := q.items[uid]
	if !ok {
		return
	}
	delete(q.items, uid)
	if i.state == inFlight {
		i.deleted = true
		return
	}
	q.leave(i)
}

// Pop waits for a pod to try and takes it in flight; the caller gives it back by Done or Requeue. One goroutine at a
// time may wait in Pop.
func (q *Queue) Pop(ctx context.Context) (*Item, error) {
	for {
		q.mu.Lock()
		i := q.next()
		q.mu.Unlock()
		if i != nil {
			return i, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-q.popper:
		}
	}
}

// next prefers active pods; when there are none, a pod that only backs off from a refusal need not wait.
func (q *Queue) next() *Item {
	q.flush()
	i := q.active.top()
	if i == nil {
		i = q.backoff.top()
	}
	if i == nil {
		return nil
	}
	q.leave(i)
	i.Attempts++
	i.state = inFlight
	i.sequence = q.sequence + uint64(len(q.events))
	q.flights = append(q.flights, i)
	return i
}

// Done removes a bound pod from those in flight.
func (q *Queue) Done(i *Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.release(i)
	if !i.deleted {
		delete(q.items, i.Pod.UID())
	}
}

// Deleted tells whether the pod went, or got a node, while in flight.
func (q *Queue) Deleted(i *Item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return i.deleted
}

// Requeue returns a pod in flight that plug-ins rejected; if none are named, any event may help it. The events that
// came meanwhile are replayed. A pod that is pending waits for what a plug-in has begun, and not for a back-off then.
func (q *Queue) Requeue(i *Item, plugins []string, pending bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	missed := slices.Clone(q.since(i))
	if !q.returned(i) {
		return
	}
	i.RefusedBy, i.errors, i.pending = plugins, 0, pending
	i.refusals++
	if i.activated {
		i.activated = false
		q.hold(i, active, "ForceActivate")
		return
	}
	for _, e := range missed {
		if q.helped(i, e) {
			q.wake(i, e.Cause())
			return
		}
	}
	q.hold(i, unschedulable, "ScheduleAttemptFailure")
}

// Retry returns a pod in flight that met an error; it is retried after a back-off.
func (q *Queue) Retry(i *Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.returned(i) {
		return
	}
	i.RefusedBy, i.pending = nil, false
	i.errors++
	if i.activated {
		i.activated = false
		q.hold(i, active, "ForceActivate")
		return
	}
	q.backOff(i, failing, "ScheduleAttemptFailure")
}

// returned releases a pod that still needs a node; false if it does not.
func (q *Queue) returned(i *Item) bool {
	q.release(i)
	if i.deleted {
		return false
	}
	if i.next != nil {
		i.Pod, i.next = i.next, nil
	}
	i.queued, i.flushed = q.config.Clock.Now(), false
	return true
}

// Move wakes the pods that an event can help.
func (q *Queue) Move(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.flights) > 0 {
		q.events = append(q.events, e)
	}
	var helped []*Item
	visit := func(plugin string) {
		for i := range q.waiting[plugin] {
			if q.helps(i.Pod, i.RefusedBy, e) {
				helped = append(helped, i)
			}
		}
	}
	visit("")
	for plugin, hints := range q.config.Hints {
		if slices.ContainsFunc(hints, func(h Hint) bool { return h.Kinds&e.Kind != 0 }) {
			visit(plugin)
		}
	}
	for _, i := range helped {
		switch i.state { // a pod refused by two plug-ins comes up twice
		case unschedulable:
			q.leave(i)
			q.wake(i, e.Cause())
		case gated:
			q.ungate(i, e.Cause())
		}
	}
}

// Flushed tells whether no event woke the pod for this try, but MaxUnschedulable.
func (i *Item) Flushed() bool { return i.flushed }

// Pending counts the pods of upstream's metric scheduler_pending_pods.
func (q *Queue) Pending() (activePods, backoff, unschedulable, gated int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.active.len(), q.backoff.len() + q.failing.len(), q.parked, q.gated
}
