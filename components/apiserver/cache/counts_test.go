package cache

import (
	"testing"
	"time"
)

func TestWaits(t *testing.T) {
	var w waits
	for _, took := range []time.Duration{0, 5 * time.Millisecond, 6 * time.Millisecond, time.Minute} {
		w.add(took)
	}
	got := w.read()
	if got.Count != 4 || got.Sum != time.Minute+11*time.Millisecond || got.Up[0] != 2 || got.Up[1] != 3 ||
		got.Up[len(got.Up)-1] != 3 {
		t.Errorf("%+v", got)
	}
}

// TestRevisionOfQuietCache: it is known to be what the store is, though that was changed elsewhere.
func TestRevisionOfQuietCache(t *testing.T) {
	f := startMemory(t)
	f.create("a", "x", "")
	elsewhere, err := f.store.Create(f.ctx, "/elsewhere/x", nil, 0)
	f.must(err)
	f.list(ListOptions{})
	if got := f.pods.Stats().Revision; got != elsewhere {
		t.Errorf("at %d, the store at %d", got, elsewhere)
	}
}
