package pods

import (
	"sync"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// inbox holds what a worker has not taken yet: events from outside, of each kind only the newest, so that an event
// storm costs no memory, and the results of its operations. A sender never waits. Where something comes to an inbox
// whose worker is asleep, a goroutine begins that runs the worker until there is nothing to take. It is safe for
// concurrent use.
type inbox struct {
	mu      sync.Mutex
	pending batch
	dirty   bool // there is something to take
	awake   bool // the worker runs
	run     func()
}

// batch is what a worker takes at once.
type batch struct {
	events
	results []message
}

// events are the pending events of a worker since it last took them.
type events struct {
	pod        *v1.Pod      // a version of the pod, as the watch delivers it
	written    *v1.Pod      // the answer to a write, if it came after pod; the watch may have overtaken it
	gone       *v1.Pod      // the last version of a pod that left the API
	observe    bool         // something changed: the engine is to be asked
	timerFired bool         // the time has come that the worker waits for
	resync     bool         // it was not synced for a while
	refresh    bool         // what the pod's volumes show changed
	listed     *runtime.Pod // the pod as the list of all containers has it
	evict      *rejection   // why the node evicts the pod, nil if it does not
}

// open lets the worker run, at once and whenever there is something to take.
func (i *inbox) open(run func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.run = run
	i.wakeLocked()
}

// close lets nothing run any more. It fails while there is something to take.
func (i *inbox) close() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dirty {
		return false
	}
	i.run = nil
	return true
}

// post adds to the events and wakes the worker; add only sets fields.
func (i *inbox) post(add func(*events)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	add(&i.pending.events)
	i.wakeLocked()
}

// report adds the result of an operation, and wakes the worker.
func (i *inbox) report(m message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pending.results = append(i.pending.results, m)
	i.wakeLocked()
}

// wake has the worker take a turn.
func (i *inbox) wake() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wakeLocked()
}

// wakeLocked is wake for callers that hold the lock.
func (i *inbox) wakeLocked() {
	i.dirty = true
	if !i.awake && i.run != nil {
		i.awake = true
		go i.run()
	}
}

// take returns what there is to take. If there is nothing, the worker is asleep from now on, and must not go on.
func (i *inbox) take() (batch, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.awake = i.dirty
	taken := i.pending
	i.pending, i.dirty = batch{}, false
	return taken, i.awake
}

// takeEvents returns the events since the last call, for a worker in the middle of a turn.
func (i *inbox) takeEvents() events {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.pending.events
	i.pending.events = events{}
	return taken
}
