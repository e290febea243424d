package queue

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// tick is the interval at which unschedulable pods are checked.
const tick = 30 * time.Second

// Run wakes pods whose back-off or MaxUnschedulable has passed, until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	ticker := q.config.Clock.NewTicker(tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		q.mu.Lock()
		q.flush()
		wait, waits := q.nextDeadline()
		q.mu.Unlock()
		q.pause(ctx, ticker, wait, waits)
	}
}

// pause lasts until something is to do: when the queue says so, at a tick, or, if a back-off runs, after wait.
func (q *Queue) pause(ctx context.Context, ticker clock.Ticker, wait time.Duration, waits bool) {
	var due <-chan time.Time
	if waits {
		timer := q.config.Clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-q.runner:
	case <-ticker.C():
	case <-due:
	}
}

// flush moves what has waited long enough.
func (q *Queue) flush() {
	now := q.config.Clock.Now()
	for _, h := range []*heap{&q.backoff, &q.failing} {
		for i := h.top(); i != nil && !i.ready.After(now); i = h.top() {
			q.leave(i)
			q.enter(i, active, "BackoffComplete")
		}
	}
	if q.parked == 0 || now.Sub(q.scanned) < tick {
		return
	}
	q.scanned = now
	var late []*Item
	for _, i := range q.items {
		if i.state == unschedulable && now.Sub(i.queued) >= q.config.MaxUnschedulable {
			late = append(late, i)
		}
	}
	for _, i := range late {
		q.leave(i)
		i.flushed = true
		q.wake(i, "UnschedulableTimeout")
	}
}

// nextDeadline is in what time the first back-off ends; false if no pod has one.
func (q *Queue) nextDeadline() (wait time.Duration, waits bool) {
	now := q.config.Clock.Now()
	for _, h := range []*heap{&q.backoff, &q.failing} {
		if i := h.top(); i != nil {
			left := max(i.ready.Sub(now), 0)
			if !waits || left < wait {
				wait, waits = left, true
			}
		}
	}
	return wait, waits
}

// updateKnown is false if the pod is not known.
func (q *Queue) updateKnown(p *snapshot.Pod) bool {
	i, ok := q.items[p.UID()]
	if ok {
		q.update(i, p)
	}
	return ok
}

// update replaces the pod of an item and wakes it if the change can help it.
func (q *Queue) update(i *Item, p *snapshot.Pod) {
	old := i.Pod
	if i.next != nil {
		old = i.next
	}
	e := Event{Kind: ownChanges(old, p), OldPod: old, Pod: p}
	if i.state == inFlight {
		i.next = p // the holder reads i.Pod
		if e.Kind != 0 {
			q.events = append(q.events, e)
		}
		return
	}
	i.Pod = p
	switch i.state {
	case active:
		q.active.fix(i)
	case backingOff:
		q.backoff.fix(i)
	case gated:
		q.ungate(i, e.Cause())
	case unschedulable:
		if e.Kind != 0 && q.helps(p, i.RefusedBy, e) {
			q.leave(i)
			q.wake(i, e.Cause())
		}
	}
}

// ungate has a gated pod tried if nothing keeps it any more. Else it waits for what helps against the plug-in that
// keeps it now, which need not be the one that did.
func (q *Queue) ungate(i *Item, cause string) {
	plugin, reason := q.config.Gate(i.Pod)
	if plugin == "" {
		q.open(i, cause)
		return
	}
	q.unlist(i)
	i.RefusedBy, i.gateReason = []string{plugin}, reason
	q.list(i)
}

// open has a gated pod tried.
func (q *Queue) open(i *Item, cause string) {
	q.leave(i)
	i.RefusedBy, i.gateReason = nil, ""
	i.queued = q.config.Clock.Now()
	q.enter(i, active, cause)
}

// Activate has pods tried as soon as possible, whatever refused them; those in flight when they come back.
func (q *Queue) Activate(uids []types.UID) {
	const cause = "ForceActivate"
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, uid := range uids {
		i, ok := q.items[uid]
		if !ok {
			continue
		}
		switch i.state {
		case inFlight:
			i.activated = true
		case unschedulable, backingOff, failing, gated:
			q.leave(i)
			q.hold(i, active, cause)
		}
	}
}

// helped tells whether an event that came while the pod was in flight makes it schedulable: of other objects, or its
// own.
func (q *Queue) helped(i *Item, e Event) bool {
	own := OwnLabels | OwnTolerations | OwnRequests | OwnGates | OwnResourceClaims
	if e.Kind&own != 0 && e.Pod.UID() != i.Pod.UID() {
		return false
	}
	return q.helps(i.Pod, i.RefusedBy, e)
}

// hold moves an item to the given queue, unless it is gated.
func (q *Queue) hold(i *Item, to state, cause string) {
	if plugin, reason := q.config.Gate(i.Pod); plugin != "" {
		i.RefusedBy, i.gateReason = []string{plugin}, reason
		to = gated
	}
	q.enter(i, to, cause)
}

// wake puts an item that an event can help where it is tried again, not before its back-off ends.
func (q *Queue) wake(i *Item, cause string) { q.backOff(i, backingOff, cause) }

// backOff counts from the end of the last try.
func (q *Queue) backOff(i *Item, to state, cause string) {
	i.ready = i.queued.Add(q.delay(i, to))
	if i.pending {
		i.ready = i.queued
	}
	if !i.ready.After(q.config.Clock.Now()) {
		to = active
	}
	q.hold(i, to, cause)
}

func (q *Queue) delay(i *Item, to state) time.Duration {
	tries := i.refusals // tries that met an error don't lengthen it
	if to == failing {
		tries = i.errors
	}
	delay := q.config.InitialBackoff
	for n := 1; n < tries && delay < q.config.MaxBackoff; n++ {
		delay *= 2
	}
	return min(delay, q.config.MaxBackoff)
}

func (q *Queue) enter(i *Item, to state, cause string) {
	i.state = to
	name := ""
	switch to {
	case active:
		if i.Since.IsZero() {
			i.Since = q.config.Clock.Now()
		}
		q.active.push(i)
		name = "active"
	case backingOff:
		q.backoff.push(i)
		name = "backoff"
	case failing:
		q.failing.push(i)
		name = "backoff"
	case unschedulable:
		q.park(i)
		name = "unschedulable"
	case gated:
		q.gated++
		q.list(i)
		name = "gated"
	}
	if q.config.Incoming != nil {
		q.config.Incoming(name, cause)
	}
	switch to {
	case active:
		signal(q.popper)
	case backingOff:
		signal(q.popper)
		signal(q.runner)
	case failing:
		signal(q.runner)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (q *Queue) leave(i *Item) {
	switch i.state {
	case active:
		q.active.remove(i)
	case backingOff:
		q.backoff.remove(i)
	case failing:
		q.failing.remove(i)
	case unschedulable:
		q.unpark(i)
	case gated:
		q.gated--
		q.unlist(i)
	}
}

func (q *Queue) park(i *Item) {
	q.parked++
	q.list(i)
}

// list makes an item known under the plug-ins that hold it up.
func (q *Queue) list(i *Item) {
	for _, plugin := range refusers(i) {
		if q.waiting[plugin] == nil {
			q.waiting[plugin] = map[*Item]struct{}{}
		}
		q.waiting[plugin][i] = struct{}{}
	}
}

func (q *Queue) unpark(i *Item) {
	q.parked--
	q.unlist(i)
}

func (q *Queue) unlist(i *Item) {
	for _, plugin := range refusers(i) {
		delete(q.waiting[plugin], i)
	}
}

func refusers(i *Item) []string {
	if len(i.RefusedBy) == 0 {
		return []string{""}
	}
	return i.RefusedBy
}

// since returns the events that came while i was in flight.
func (q *Queue) since(i *Item) []Event { return q.events[i.sequence-q.sequence:] }

// release removes an item from the in-flight ones and drops events that no other item in flight needs.
func (q *Queue) release(i *Item) {
	at := slices.Index(q.flights, i)
	if at < 0 {
		return
	}
	q.flights = slices.Delete(q.flights, at, at+1)
	if len(q.flights) == 0 {
		q.sequence += uint64(len(q.events))
		clear(q.events)
		q.events = q.events[:0]
		return
	}
	if at > 0 {
		return
	}
	drop := int(q.flights[0].sequence - q.sequence)
	if drop > len(q.events)/2 { // moving the rest is paid for by what goes
		q.events = slices.Delete(q.events, 0, drop)
		q.sequence += uint64(drop)
	}
}
