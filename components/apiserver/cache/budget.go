package cache

import (
	"sync"
	"weak"
)

// budget bounds the memory of encodings over all caches that share it. What was used since it was last looked at stays;
// of the rest, the oldest goes. Encodings of objects that are gone are freed by the garbage collector whatever the
// budget.
type budget struct {
	limit int64

	mu    sync.Mutex
	spent int64
	queue []expense // oldest first, from head on
	head  int
}

type expense struct {
	what weak.Pointer[encoding]
	size int64
}

// newBudget makes a budget of so many bytes.
func newBudget(limit int64) *budget { return &budget{limit: limit} }

func (b *budget) spend(n *encoding, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += int64(size)
	b.queue = append(b.queue, expense{weak.Make(n), int64(size)})
	// Each pass through the queue clears the marks of use, so the loop ends.
	for b.spent > b.limit && b.head < len(b.queue)-1 {
		b.evict()
	}
}

func (b *budget) evict() {
	oldest := b.queue[b.head]
	b.queue[b.head] = expense{}
	b.head++
	if b.head > len(b.queue)/2 && b.head > 64 {
		n := copy(b.queue, b.queue[b.head:])
		clear(b.queue[n:])
		b.queue, b.head = b.queue[:n], 0
	}
	n := oldest.what.Value()
	if n != nil && n.used.Swap(false) {
		b.queue = append(b.queue, oldest)
		return
	}
	b.spent -= oldest.size
	if n != nil {
		n.body.Store(nil)
	}
}
