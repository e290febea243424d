package clock

import (
	"context"
	"fmt"
	"time"
)

// An Advance looks at rhythms at least this often, and lets this much pass between two looks at most. A lease that is
// renewed at any rhythm and lasts an hour, as those of API servers, outlives a step.
const (
	looks    = 500
	mostRest = 45 * time.Minute
)

// leastStep divides an Advance into the shortest steps that it is made of: what waits for less again and again makes
// no more of them.
const leastStep = 1_000_000

// Advance puts the clock forward by d, beside the real time that passes. It goes from appointment to appointment: all
// timers fire at their time, in their order, and each step waits until nothing happens any more. Tickers, and timers
// of background clocks, fire when one of the steps finds them due, at least every 500th part of d (45 minutes at
// most); a ticker that was due several times fires once, as one whose receiver is slow.
//
// One Advance runs at a time; others wait. If ctx ends before, its error is returned, and the clock stands where it
// came to.
func (c *Clock) Advance(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("advance the clock by %s: time does not go back", d)
	}
	l := c.line
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.settle(ctx, calmEnough); err != nil {
		return err
	}
	s := stride{left: d, rest: min(d/looks, mostRest), least: d/leastStep + 1}
	defer l.release()
	for s.left > 0 {
		if err := l.step(ctx, &s); err != nil {
			return err
		}
	}
	return nil
}

// stride is the state of an Advance.
type stride struct {
	left  time.Duration
	rest  time.Duration // between two looks at rhythms
	least time.Duration // of a step
	since time.Duration // the last look
}

// next takes the next step: how far it goes, and whether it looks at rhythms. appointment and rhythm are how far the
// first of each is away, negative if there is none.
func (s *stride) next(appointment, rhythm time.Duration) (length time.Duration, look bool) {
	length = s.left
	if appointment >= 0 {
		length = min(length, appointment)
	}
	if rhythm >= 0 {
		length = min(length, max(rhythm, s.rest-s.since))
	}
	length = min(max(length, s.least), s.left)
	s.left -= length
	s.since += length
	if look = s.since >= s.rest || s.left == 0; look {
		s.since = 0
	}
	return length, look
}

// step moves the clock once. Who reports goes first.
func (l *timeline) step(ctx context.Context, s *stride) error {
	l.mu.Lock()
	length, look := s.next(l.until(appointments), l.until(rhythms))
	first, then, enough := early[:1], appointments, calmEnough
	if look {
		first, then, enough = early, everyone, calmReports
	}
	l.open = first
	l.ahead += length
	fired := l.expire()
	l.mu.Unlock()
	var err error
	if fired > 0 {
		err = l.settle(ctx, enough)
	}
	l.mu.Lock()
	l.open = then
	fired = l.expire()
	l.mu.Unlock()
	if err == nil && (fired > 0 || s.left == 0) {
		err = l.settle(ctx, calmEnough)
	}
	return err
}

// until is how far the first waiter of some classes is away; negative if there is none. It is called with mu held.
func (l *timeline) until(classes []class) time.Duration {
	first, ok := l.first(classes)
	if !ok {
		return -1
	}
	return max(first.Sub(l.now()), 0)
}

// release lets all timers fire again, by real time.
func (l *timeline) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = everyone
	l.expire()
}
