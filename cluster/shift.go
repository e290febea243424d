package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ShiftClock puts the clock of a member in this process forward by d, or back if d is negative, until it is healed:
// what the member reads as the time is off, and its timers run as before, as on a machine whose clock was set. Shifts
// of one member add up. It reaches components in process and programs (WithProgram) beside containers; a container has
// the time of its host.
func (c *Cluster) ShiftClock(_ context.Context, m *Member, d time.Duration) (Heal, error) {
	if m.missing != nil {
		return nil, m.missing
	}
	what := fmt.Sprintf("shift the clock of %s", m.name)
	if !c.config.inThisProcess(m.component) {
		return nil, fmt.Errorf("%s: %w: a container has the time of its host; run the component in this process, WithProgram",
			what, ErrUnsupported)
	}
	if m.component == Etcd {
		return nil, fmt.Errorf("%s: %w: etcd has the time of its process", what, ErrUnsupported)
	}
	c.shifts.add(m.name, d)
	var once sync.Once
	return func(context.Context) error {
		once.Do(func() { c.shifts.add(m.name, -d) })
		return nil
	}, nil
}

// shifts are how far the clocks of members are off. The zero value is ready; it is safe for concurrent use.
type shifts struct {
	mu  sync.Mutex
	off map[string]time.Duration
}

func (s *shifts) add(member string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off == nil {
		s.off = map[string]time.Duration{}
	}
	s.off[member] += d
}

func (s *shifts) of(member string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off[member]
}

// clock is the member's: base, and how far it is off.
func (s *shifts) clock(member string, base clock.WithTickerAndDelayedExecution) clock.WithTickerAndDelayedExecution {
	return shifted{WithTickerAndDelayedExecution: base, by: func() time.Duration { return s.of(member) }}
}

// shifted shows another time than the clock whose timers it has.
type shifted struct {
	clock.WithTickerAndDelayedExecution
	by func() time.Duration
}

// Now implements clock.PassiveClock.
func (s shifted) Now() time.Time { return s.WithTickerAndDelayedExecution.Now().Add(s.by()) }

// Since implements clock.PassiveClock.
func (s shifted) Since(t time.Time) time.Duration { return s.Now().Sub(t) }
