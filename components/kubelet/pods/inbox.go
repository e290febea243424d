package pods

import (
	"sync"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// inbox holds the events from outside that a worker has not taken yet. Of each kind only the newest is kept, so that
// a sender never waits and an event storm costs no memory. It is safe for concurrent use.
type inbox struct {
	mu      sync.Mutex
	pending events
	// signal has a value while there may be something to take.
	signal chan struct{}
}

// events are the pending events of a worker since it last took them.
type events struct {
	pod     *v1.Pod      // a version of the pod, as the watch delivers it
	written *v1.Pod      // the answer to a write, if it came after pod; the watch may have overtaken it
	gone    *v1.Pod      // the last version of a pod that left the API
	observe bool         // something changed: the engine is to be asked
	refresh bool         // what the pod's volumes show changed
	listed  *runtime.Pod // the pod as the list of all containers has it
	evict   *rejection   // why the node evicts the pod, nil if it does not
}

func newInbox() *inbox { return &inbox{signal: make(chan struct{}, 1)} }

// post adds to the events and wakes the worker; add only sets fields.
func (i *inbox) post(add func(*events)) {
	i.mu.Lock()
	add(&i.pending)
	i.mu.Unlock()
	select {
	case i.signal <- struct{}{}:
	default: // the worker is going to take it
	}
}

// take returns the events since the last call.
func (i *inbox) take() events {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.pending
	i.pending = events{}
	return taken
}
