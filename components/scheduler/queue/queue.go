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
	// Gate returns the plug-in that keeps a pod from being tried at all, or "".
	Gate func(*snapshot.Pod) string
	// InitialBackoff doubles with every failed try, up to MaxBackoff.
	InitialBackoff, MaxBackoff time.Duration
	// Patience is how long a pod stays unschedulable before it is tried again without a reason.
	Patience time.Duration
	// Incoming, if not nil, is told of every move of a pod, with the queue's name and the cause.
	Incoming func(queue, cause string)
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
	// Since is when the pod was first seen.
	Since time.Time
	// RefusedBy are the plug-ins that refused it at the last try.
	RefusedBy []string

	state    state
	next     *snapshot.Pod // the pod's update that came in flight
	at       int           // in its heap
	queued   time.Time     // when it last got into a queue
	errors   int           // tries in a row that ended with an error
	ready    time.Time     // end of its back-off
	sequence uint64        // of the first event after it was popped
	deleted  bool
}

// Queue is safe for concurrent use.
type Queue struct {
	config Config

	popper, runner chan struct{} // signals that Pop and Run should look again

	mu      sync.Mutex
	scanned time.Time // when patience was last looked at
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
}

// New returns an empty queue.
func New(c Config) *Queue {
	byReady := func(a, b *Item) bool { return a.ready.Before(b.ready) }
	return &Queue{
		config:  c,
		popper:  make(chan struct{}, 1),
		runner:  make(chan struct{}, 1),
		scanned: c.Clock.Now(),
		items:   map[types.UID]*Item{},
		active:  heap{less: first},
		backoff: heap{less: byReady},
		failing: heap{less: byReady},
		waiting: map[string]map[*Item]struct{}{},
	}
}

// first orders by priority, then by how long the pod waits (plug-in PrioritySort).
func first(a, b *Item) bool {
	if a.Pod.Priority != b.Pod.Priority {
		return a.Pod.Priority > b.Pod.Priority
	}
	return a.queued.Before(b.queued)
}

// Add takes in a pod that is new. One that is known is updated.
func (q *Queue) Add(p *snapshot.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i, ok := q.items[p.UID()]; ok {
		q.update(i, p)
		return
	}
	now := q.config.Clock.Now()
	i := &Item{Pod: p, Since: now, queued: now, at: -1}
	q.items[p.UID()] = i
	q.hold(i, active, "PodAdd")
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

// Done ends the flight of a pod that got its node.
func (q *Queue) Done(i *Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.land(i)
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

// Requeue ends the flight of a pod that plugins refused; if none are named, any event may help it. The events that
// came meanwhile are replayed.
func (q *Queue) Requeue(i *Item, plugins []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	missed := slices.Clone(q.since(i))
	if !q.returned(i) {
		return
	}
	i.RefusedBy, i.errors = plugins, 0
	for _, e := range missed {
		if q.helped(i, e) {
			q.wake(i, e.Kind.String())
			return
		}
	}
	q.hold(i, unschedulable, "ScheduleAttemptFailure")
}

// Retry ends the flight of a pod that met an error; it is tried again after a back-off.
func (q *Queue) Retry(i *Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.returned(i) {
		return
	}
	i.RefusedBy = nil
	i.errors++
	q.backOff(i, failing, "ScheduleAttemptFailure")
}

// returned lands a pod that still needs a node; false if it does not.
func (q *Queue) returned(i *Item) bool {
	q.land(i)
	if i.deleted {
		return false
	}
	if i.next != nil {
		i.Pod, i.next = i.next, nil
	}
	i.queued = q.config.Clock.Now()
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
			if q.config.Hints.Helps(i.Pod, i.RefusedBy, e) {
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
		if i.state == unschedulable { // a pod refused by two plug-ins comes up twice
			q.leave(i)
			q.wake(i, e.Kind.String())
		}
	}
}

// Pending counts the pods of upstream's metric scheduler_pending_pods.
func (q *Queue) Pending() (activePods, backoff, unschedulable, gated int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.active.len(), q.backoff.len() + q.failing.len(), q.parked, q.gated
}
