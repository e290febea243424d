package cache

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestAskerAsksAgain: a store that is silent for a while costs nobody their answer, be it who asked first or who came then, and
// holds nobody up longer than they have time.
func TestAskerAsksAgain(t *testing.T) {
	asked := 0
	a := asker{base: context.Background(), patience: time.Millisecond, ask: func(ctx context.Context) (int64, error) {
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
