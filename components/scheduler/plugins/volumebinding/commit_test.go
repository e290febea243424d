package volumebinding

import (
	"testing"
	"time"
)

// TestNextInterval waits for a binding that takes ten seconds.
func TestNextInterval(t *testing.T) {
	looks, interval := 0, lookInterval
	var waited time.Duration
	for ; waited < 10*time.Second; interval = nextInterval(interval) {
		if late := waited / 4; looks > 0 && interval > lookInterval+late {
			t.Errorf("after %v: looks again in %v", waited, interval)
		}
		waited += interval
		looks++
	}
	if looks > 25 || interval > longLookInterval {
		t.Errorf("%d looks, the last after %v", looks, interval)
	}
}
