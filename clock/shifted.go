package clock

import (
	"time"

	"k8s.io/utils/clock"
)

// Shifted reads another time than base by what by returns, and has base's timers, as a machine whose clock was set. by
// is called whenever the time is read, from any goroutine. What is measured over a change of the shift contains it.
func Shifted(base clock.WithTickerAndDelayedExecution, by func() time.Duration) clock.WithTickerAndDelayedExecution {
	return shifted{WithTickerAndDelayedExecution: base, by: by}
}

type shifted struct {
	clock.WithTickerAndDelayedExecution
	by func() time.Duration
}

// Now implements clock.PassiveClock.
func (s shifted) Now() time.Time { return s.WithTickerAndDelayedExecution.Now().Add(s.by()) }

// Since implements clock.PassiveClock.
func (s shifted) Since(t time.Time) time.Duration { return s.Now().Sub(t) }
