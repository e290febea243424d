// Package clock is a clock that tests move. It runs as the real one does, so that everything works as usual, and
// Advance puts it forward: what was to happen in that time happens in its order, and each step waits until what it
// began is over. It implements the interfaces of k8s.io/utils/clock, so that a controller under test can share it with
// the cluster that it works on.
//
// Holders of a Clock differ in what Advance does with their timers (see Early and Background). Tickers are rhythms
// that skip ticks that come too fast, as real ones do; timers are appointments, and kept.
package clock

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Clock tells the time and keeps timers. All clocks made of one share its time. It is safe for concurrent use.
type Clock struct {
	line       *timeline
	late       bool // its timers come after those of early clocks
	background bool // its timers are rhythms, too
}

var _ clock.WithTickerAndDelayedExecution = &Clock{}

// New makes a clock that shows start now and runs with real time; the zero time stands for the real one.
func New(start time.Time) *Clock {
	began := time.Now()
	if start.IsZero() {
		start = began
	}
	line := &timeline{began: began, start: start.Round(0), turn: make(chan struct{}, 1),
		open: everyone, watched: map[int]Activity{}}
	return &Clock{line: line, late: true}
}

// Early is the same clock for those who report, such as kubelets: in a step, their timers come before those of who
// acts on the reports, so that no node is taken for lost that the step didn't let report.
func (c *Clock) Early() *Clock { return &Clock{line: c.line, background: c.background} }

// Background is the same clock for those whose timers are rhythms of their own, such as bookmarks of watches: Advance
// treats them as tickers. Timers shorter than a second belong to what happens now, such as a batch of events, and are
// kept.
func (c *Clock) Background() *Clock { return &Clock{line: c.line, late: c.late, background: true} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	return c.line.now()
}

// Since is how much of the clock's time has passed since t.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// After is a channel that receives the time once d has passed.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// Sleep returns when d has passed.
func (c *Clock) Sleep(d time.Duration) { <-c.After(d) }

// NewTimer makes a timer that fires once.
func (c *Clock) NewTimer(d time.Duration) clock.Timer {
	return c.set(&waiter{c: make(chan time.Time, 1), class: c.class(false), background: c.background}, d)
}

// NewTicker makes a ticker. d must be greater than 0.
func (c *Clock) NewTicker(d time.Duration) clock.Ticker {
	if d <= 0 {
		panic("clock: a ticker needs a period greater than 0")
	}
	return ticker{c.set(&waiter{c: make(chan time.Time, 1), class: c.class(true), period: d}, d)}
}

// Tick is the channel of a new ticker, which can't be stopped; nil if d is not greater than 0.
func (c *Clock) Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return c.NewTicker(d).C()
}

// AfterFunc calls f in its own goroutine once d has passed. The channel of the timer is nil.
func (c *Clock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.set(&waiter{f: f, class: c.class(false), background: c.background}, d)
}

func (c *Clock) class(rhythm bool) class { return class{late: c.late, rhythm: rhythm} }

func (c *Clock) set(w *waiter, d time.Duration) *waiter {
	w.line, w.index = c.line, -1
	w.Reset(d)
	return w
}

// brief is what timers of background clocks wait for least if they are rhythms.
const brief = time.Second

// class says when Advance lets a waiter fire.
type class struct{ late, rhythm bool }

// The classes, by when they may fire in a step.
var (
	appointments = []class{{}, {late: true}}
	rhythms      = []class{{rhythm: true}, {late: true, rhythm: true}}
	early        = []class{{}, {rhythm: true}}
	everyone     = append(slices.Clone(appointments), rhythms...)
)

// waiter is a timer, a ticker or a function to call.
type waiter struct {
	line       *timeline
	class      class
	c          chan time.Time
	f          func()
	period     time.Duration // 0: it fires once
	background bool          // each Reset decides whether it is a rhythm

	due   time.Time // guarded by line.mu, as index is
	index int       // in its queue; -1 is in none
}

func (w *waiter) C() <-chan time.Time { return w.c }

// Stop ends the waiter and tells whether it was to fire yet. Nothing is received from its channel afterwards.
func (w *waiter) Stop() bool {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	return w.stop()
}

func (w *waiter) stop() bool {
	pending := w.index >= 0
	if pending {
		heap.Remove(w.line.queue(w.class), w.index)
	}
	select {
	case <-w.c:
		pending = true
	default:
	}
	return pending
}

// Reset makes the waiter fire once d has passed, and tells whether it was to fire yet.
func (w *waiter) Reset(d time.Duration) bool {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	pending := w.stop()
	if w.background && w.period == 0 {
		w.class.rhythm = d >= brief
	}
	w.due = w.line.now().Add(max(d, 0))
	heap.Push(w.line.queue(w.class), w)
	w.line.arm()
	return pending
}

// fire is called with line.mu held.
func (w *waiter) fire(now time.Time) {
	if w.f != nil {
		go w.f()
		return
	}
	select {
	case w.c <- now:
	default: // the last one waits to be received
	}
}

// ticker narrows a waiter to what tickers have.
type ticker struct{ w *waiter }

func (t ticker) C() <-chan time.Time { return t.w.c }
func (t ticker) Stop()               { t.w.Stop() }

// queue holds waiters, soonest first.
type queue []*waiter

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	w := x.(*waiter)
	w.index = len(*q)
	*q = append(*q, w)
}

func (q *queue) Pop() any {
	old := *q
	w := old[len(old)-1]
	old[len(old)-1], w.index = nil, -1
	*q = old[:len(old)-1]
	return w
}

// timeline is the time that clocks share, and who waits for it.
type timeline struct {
	began time.Time // real time, of New
	start time.Time // the clock's time then
	turn  chan struct{}

	mu      sync.Mutex
	ahead   time.Duration // by how much more than real time has passed
	waiting [4]queue
	open    []class // who may fire
	alarm   *time.Timer
	watched map[int]Activity
	nextID  int
}

// All that follow are called with mu held.

func (l *timeline) now() time.Time { return l.start.Add(time.Since(l.began) + l.ahead) }

func (l *timeline) queue(c class) *queue {
	i := 0
	if c.late {
		i |= 1
	}
	if c.rhythm {
		i |= 2
	}
	return &l.waiting[i]
}

// first is when the first waiter of some classes is due; false if there is none.
func (l *timeline) first(classes []class) (time.Time, bool) {
	var first time.Time
	found := false
	for _, c := range classes {
		if q := *l.queue(c); len(q) > 0 && (!found || q[0].due.Before(first)) {
			first, found = q[0].due, true
		}
	}
	return first, found
}

// arm sets the alarm of real time to the first who may fire.
func (l *timeline) arm() {
	first, ok := l.first(l.open)
	if !ok {
		return
	}
	wait := max(first.Sub(l.now()), 0)
	if l.alarm == nil {
		l.alarm = time.AfterFunc(wait, l.ring)
		return
	}
	l.alarm.Reset(wait)
}

func (l *timeline) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
}

// expire lets those fire who are due, in their order, and tells how many did.
func (l *timeline) expire() int {
	now, fired := l.now(), 0
	for {
		q := l.soonest()
		if q == nil || (*q)[0].due.After(now) {
			break
		}
		w := heap.Pop(q).(*waiter)
		if w.period > 0 {
			missed := now.Sub(w.due) / w.period
			w.due = w.due.Add((missed + 1) * w.period)
			heap.Push(q, w)
		}
		w.fire(now)
		fired++
	}
	l.arm()
	return fired
}

// soonest is the queue whose first waiter comes first; nil if there is none.
func (l *timeline) soonest() *queue {
	var found *queue
	for _, c := range l.open {
		if q := l.queue(c); q.Len() > 0 && (found == nil || (*q)[0].due.Before((*found)[0].due)) {
			found = q
		}
	}
	return found
}
