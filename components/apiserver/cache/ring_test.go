package cache

import (
	"testing"
	"time"
)

// TestRingForgets: what is old goes when something new comes, or else after a longer time; but a few stay, and never
// too many.
func TestRingForgets(t *testing.T) {
	begin := time.Unix(1_000_000_000, 0)
	r := ring{limit: 10, few: 2}
	r.reset(0)
	next := int64(0)
	add := func(at time.Duration) {
		next++
		r.append(&change{revision: next, at: begin.Add(at)})
	}
	has := func(when string, oldest int64) {
		t.Helper()
		if _, ok := r.since(oldest - 1); !ok || r.start != oldest-1 {
			t.Errorf("%s: remembers what came after %d, want what came from %d on", when, r.start, oldest)
		}
	}
	for range 5 {
		add(0)
	}
	r.trim(begin.Add(quietTime), quietTime)
	has("quiet", 1)
	r.trim(begin.Add(quietTime+1), quietTime)
	has("quiet for long", 4)
	for range 3 {
		add(quietTime)
	}
	has("after others", 6)
	for range 10 {
		add(quietTime)
	}
	has("too many", 9)
}

// TestHistoryIsLong: many events of a short time are remembered.
func TestHistoryIsLong(t *testing.T) {
	f := startMemory(t)
	if got := f.pods.Stats().Capacity; got != 102_400 {
		t.Errorf("remembers %d", got)
	}
}
