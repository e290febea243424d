package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// rate runs op from n workers for d and returns how often per second it succeeded. The first error ends it. op gets the
// worker and a number that no other call gets.
func rate(ctx context.Context, n int, d time.Duration, op func(ctx context.Context, worker int,
	call int64) error) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls, done atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	end := begin.Add(d)
	for worker := range n {
		wg.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				if err := op(ctx, worker, calls.Add(1)); err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return 0, err
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), nil
}

// each runs op for 0..count-1 on n workers.
func each(ctx context.Context, n, count int, op func(ctx context.Context, worker, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= count {
					return
				}
				if err := op(ctx, worker, i); err != nil {
					cancel(fmt.Errorf("%d: %w", i, err))
					return
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// fastest runs op several times and returns the shortest time, which noise disturbs least.
func fastest(times int, op func() error) (time.Duration, error) {
	var best time.Duration
	for i := range times {
		begin := time.Now()
		if err := op(); err != nil {
			return 0, err
		}
		if d := time.Since(begin); i == 0 || d < best {
			best = d
		}
	}
	return best, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
