package score

import (
	"encoding/json"
	"sync"
	"time"
)

// maxWaiting bounds what arrived and was not analyzed yet, in bytes: watches wait when there is more.
const maxWaiting = 64 << 20

// arrival is what came of one resource at one time: an event of its watch, or the whole list.
type arrival struct {
	at   time.Time
	of   resource
	kind string // of a watch event, whose object is raw
	raw  []byte
	list []json.RawMessage
	// listed says that it is a list, and late that the resource was not there when the recording began.
	listed, late bool
}

// read makes entries of an arrival.
func (a arrival) read(h *history) ([]Entry, error) {
	if a.listed {
		return h.listed(a.of, a.list, a.late)
	}
	return h.seen(a.of, a.kind, a.raw)
}

func (a arrival) size() int {
	size := len(a.raw)
	for _, item := range a.list {
		size += len(item)
	}
	return size
}

// arrivals is a queue in the order of arrival, bounded in bytes.
type arrivals struct {
	mu      sync.Mutex
	changed *sync.Cond
	queue   []arrival
	taken   bool // what was taken last is being analyzed
	bytes   int
	closed  bool
}

func newArrivals() *arrivals {
	a := &arrivals{}
	a.changed = sync.NewCond(&a.mu)
	return a
}

// put adds an arrival, when there is room. What is put after close is lost.
func (a *arrivals) put(what arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.bytes > maxWaiting && !a.closed {
		a.changed.Wait()
	}
	a.queue = append(a.queue, what)
	a.bytes += what.size()
	if len(a.queue) == 1 {
		a.changed.Broadcast()
	}
}

// take waits for arrivals and returns all there are; ok is false when there will be none.
func (a *arrivals) take() (batch []arrival, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken = false
	for len(a.queue) == 0 && !a.closed {
		a.changed.Wait()
	}
	batch, a.queue, a.bytes = a.queue, nil, 0
	a.taken = len(batch) > 0
	a.changed.Broadcast()
	return batch, a.taken
}

// empty tells whether all that arrived was analyzed.
func (a *arrivals) empty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue) == 0 && !a.taken
}

func (a *arrivals) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.changed.Broadcast()
}
