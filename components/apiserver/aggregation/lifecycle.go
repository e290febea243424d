package aggregation

import (
	"context"
	"sync"
)

// lifecycle is that of an Aggregator. Background work that outlives its request ends with it.
type lifecycle struct {
	over context.Context
	end  context.CancelFunc
	mu   sync.Mutex // held to begin something, and to end
	work sync.WaitGroup
}

func newLifecycle() *lifecycle {
	over, end := context.WithCancel(context.Background())
	return &lifecycle{over: over, end: end}
}

// within does something with what ctx carries, though not only until that ends; nothing if the life is over.
func (l *lifecycle) within(ctx context.Context, do func(ctx context.Context)) {
	l.mu.Lock()
	if l.over.Err() != nil {
		l.mu.Unlock()
		return
	}
	l.work.Add(1)
	l.mu.Unlock()
	defer l.work.Done()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(l.over, cancel)()
	do(ctx)
}

// finish ends what is under way, and returns when it has ended.
func (l *lifecycle) finish() {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	l.work.Wait()
}
