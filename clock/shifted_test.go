package clock

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func TestShifted(t *testing.T) {
	base, by := testingclock.NewFakeClock(start), time.Duration(0)
	c := Shifted(base, func() time.Duration { return by })
	began := c.Now()
	by = -2 * time.Hour
	if got := c.Now(); !got.Equal(start.Add(-2 * time.Hour)) {
		t.Errorf("it is %v", got)
	}
	if got := c.Since(began); got != -2*time.Hour {
		t.Errorf("%v passed", got)
	}
	timer := c.NewTimer(time.Minute)
	base.Step(time.Minute)
	select {
	case <-timer.C():
	default:
		t.Error("a timer is shifted, too")
	}
}
