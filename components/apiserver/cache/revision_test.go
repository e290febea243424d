package cache

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// TestAskerAsksAgain: a store that doesn't answer for a while costs no caller its answer, be it the one that sent the
// request or one that joined it, and holds none up past its deadline.
func TestAskerAsksAgain(t *testing.T) {
	asked := 0
	a := revisionCoalescer{base: context.Background(), timeout: time.Millisecond,
		ask: func(ctx context.Context) (int64, error) {
			if asked++; asked == 3 {
				return 7, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}}
	if revision, err := a.current(context.Background()); revision != 7 || err != nil {
		t.Errorf("%d, %v", revision, err)
	}
	brief, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.current(brief); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent store: %v", err)
	}
}

// TestSlowNudge: what is reached while the store is nudged, for as long as there is time, is reached.
func TestSlowNudge(t *testing.T) {
	for range 30 {
		var h revisionWaiter
		ctx, cancel := context.WithCancel(t.Context())
		err := h.wait(ctx, clock.RealClock{}, 5, func(context.Context) {
			h.advance(5)
			cancel()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
