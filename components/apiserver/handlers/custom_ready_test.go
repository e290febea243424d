package handlers

import (
	"testing"
	"time"
)

// TestPatience: clients are told to come back the later the longer an outage lasts, and its end is forgotten by the
// next.
func TestPatience(t *testing.T) {
	var o outage
	began := time.Unix(100, 0)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {10 * time.Second, 1}, {20 * time.Second, 3}, {time.Minute, 30}, {time.Hour, 30}} {
		if got := retryAfter(o.since(began.Add(step.after))); got != step.want {
			t.Errorf("after %v: %d s, want %d", step.after, got, step.want)
		}
	}
	o.over()
	if got := retryAfter(o.since(began.Add(2 * time.Hour))); got != 1 {
		t.Errorf("of another: %d s", got)
	}
}
