package cache

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestAskerEndsQuestions: a store that gives no answer holds nobody up for ever, be it who asked first or who came then.
func TestAskerEndsQuestions(t *testing.T) {
	asked := 0
	a := asker{base: context.Background(), patience: time.Millisecond, ask: func(ctx context.Context) (int64, error) {
		if asked++; asked == 3 {
			return 7, nil
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}}
	for range 2 {
		if _, err := a.current(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
	}
	if revision, err := a.current(context.Background()); revision != 7 || err != nil {
		t.Errorf("%d, %v", revision, err)
	}
}
