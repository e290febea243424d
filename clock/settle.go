package clock

import (
	"context"
	"runtime/metrics"
	"time"
)

// Activity tells what a step has to wait for: a number that changes with everything that happens, and whether
// something is under way. It must not wait.
type Activity func() (happened int64, busy bool)

// Watch makes Advance wait, after each step, until an activity comes to rest. The caller ends that with forget.
func (c *Clock) Watch(a Activity) (forget func()) {
	l := c.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextID++
	id := l.nextID
	l.watched[id] = a
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watched, id)
	}
}

// Rest is recognized by samples of real time: activities stand still, and no goroutine of this process runs but the
// one that looks. A process that is busy with other things is at rest when activities stand still for longer.
const (
	sampleEvery = 200 * time.Microsecond
	calmEnough  = 200
	calmReports = 400 // of reports, on which others act: what is on its way through a connection is not seen
	calmIdle    = 100 // what a sample counts if no goroutine runs
	calmBusy    = 1
	settleMost  = 5 * time.Second // what never rests is left to itself
)

// settle waits until all activities have been at rest for enough samples.
func (l *timeline) settle(ctx context.Context, enough int) error {
	goroutines := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/running:goroutines"}}
	last, _ := l.activity()
	end := time.Now().Add(settleMost)
	for calm := 0; calm < enough && time.Now().Before(end); {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(sampleEvery)
		metrics.Read(goroutines)
		happened, busy := l.activity()
		switch {
		case busy || happened != last:
			calm, last = 0, happened
		case goroutines[0].Value.Uint64() == 0 && goroutines[1].Value.Uint64() <= 1:
			calm += calmIdle
		default:
			calm += calmBusy
		}
	}
	return nil
}

func (l *timeline) activity() (happened int64, busy bool) {
	l.mu.Lock()
	watched := make([]Activity, 0, len(l.watched))
	for _, a := range l.watched {
		watched = append(watched, a)
	}
	l.mu.Unlock()
	for _, a := range watched {
		n, b := a()
		happened, busy = happened+n, busy || b
	}
	return happened, busy
}
