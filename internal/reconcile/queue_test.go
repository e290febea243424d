package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// begin runs a loop with so many workers until the test, which is in a bubble, ends it with the context or returns.
func begin(t *testing.T, workers int, f func(context.Context, string) error) (*Loop[string], context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	loop := New(Config{Name: "test", Workers: workers, Clock: clock.RealClock{}}, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := loop.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return loop, cancel
}

// goroutines tells how many workers of a queue there are, and whether a goroutine waits for delays.
func (q *queue[K]) goroutines(allowed int) (workers int, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return allowed - q.idle, q.wake != nil
}

// Workers are there while there are keys, as many as are allowed; a key is with one of them at a time.
func TestWorkersOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, same atomic.Int32
		loop, _ := begin(t, 3, func(_ context.Context, key string) error {
			if key == "same" && same.Add(1) > 1 {
				t.Error("a key is reconciled twice at once")
			}
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			if key == "same" {
				same.Add(-1)
			}
			return nil
		})
		is := func(want int) {
			t.Helper()
			synctest.Wait()
			if got, waits := loop.queue.goroutines(3); got != want || int(running.Load()) != want || waits {
				t.Errorf("%d workers, %d run, waits for delays: %t; want %d workers", got, running.Load(), waits, want)
			}
		}
		is(0)
		loop.Add("same")
		is(1)
		loop.Add("same")
		is(1)
		for _, key := range []string{"a", "b", "c", "d"} {
			loop.Add(key)
		}
		is(3)
		time.Sleep(time.Minute)
		is(0)
		loop.Add("a")
		is(1)
		time.Sleep(time.Second)
		is(0)
		if most.Load() != 3 {
			t.Errorf("%d at once", most.Load())
		}
	})
}

// Keys that are there before the loop runs are reconciled in their order, as those that come later are.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		var loop *Loop[string]
		loop = New(Config{Clock: clock.RealClock{}}, func(_ context.Context, key string) error {
			got = append(got, key)
			if len(got) == 1 {
				loop.Add(key) // comes after those that are waiting
			}
			return nil
		})
		for _, key := range []string{"c", "a", "b", "a"} {
			loop.Add(key)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = loop.Run(ctx)
		loop.Add("late")
		loop.AddAfter("late", time.Second)
		if want := []string{"c", "a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if workers, waits := loop.queue.goroutines(1); workers != 0 || waits {
			t.Errorf("after the end there are %d workers; waits for delays: %t", workers, waits)
		}
	})
}

// Of several delays of a key the first to end counts; nothing waits when no key is delayed.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		got := map[string][]time.Duration{}
		loop, cancel := begin(t, 1, func(_ context.Context, key string) error {
			got[key] = append(got[key], time.Since(start))
			return nil
		})
		loop.AddAfter("late", time.Hour)
		loop.AddAfter("a", 3*time.Second)
		loop.AddAfter("a", time.Second)
		loop.AddAfter("a", 2*time.Second)
		loop.AddAfter("b", 2*time.Second)
		loop.AddAfter("now", 0)
		loop.AddAfter("past", -time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, waits := loop.queue.goroutines(1); !waits {
			t.Error("nothing waits for the last delay")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want := map[string]time.Duration{"a": time.Second, "b": 2 * time.Second, "late": time.Hour, "now": 0, "past": 0}
		for key, at := range want {
			if !slices.Equal(got[key], []time.Duration{at}) {
				t.Errorf("%s: %v, want %v", key, got[key], at)
			}
		}
		if _, waits := loop.queue.goroutines(1); waits || len(loop.queue.delays.due) > 0 {
			t.Error("it waits for delays without any")
		}
		loop.AddAfter("b", time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(got["b"]) != 2 {
			t.Errorf("b: %v", got["b"])
		}
		loop.AddAfter("never", time.Second)
		cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(got["never"]) > 0 {
			t.Error("a delay outlasts the loop")
		}
	})
}

// A loop ends after its workers do, and begins no other key.
func TestEndWaitsForWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		reconciled := 0
		loop := New(Config{Clock: clock.RealClock{}}, func(ctx context.Context, _ string) error {
			reconciled++
			cancel()
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil
		})
		loop.Add("a")
		loop.Add("b")
		start := time.Now()
		if err := loop.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if reconciled != 1 || time.Since(start) != time.Second {
			t.Errorf("%d keys, %v", reconciled, time.Since(start))
		}
	})
}

// gauge implements workqueue's metrics.
type gauge struct{ value float64 }

func (g *gauge) Inc()              { g.value++ }
func (g *gauge) Dec()              { g.value-- }
func (g *gauge) Set(v float64)     { g.value = v }
func (g *gauge) Observe(v float64) { g.value += v }

type gauges map[string]*gauge

func (g gauges) of(name string) *gauge {
	g[name] = &gauge{}
	return g[name]
}

func (g gauges) NewDepthMetric(string) workqueue.GaugeMetric            { return g.of("depth") }
func (g gauges) NewAddsMetric(string) workqueue.CounterMetric           { return g.of("adds") }
func (g gauges) NewLatencyMetric(string) workqueue.HistogramMetric      { return g.of("waited") }
func (g gauges) NewWorkDurationMetric(string) workqueue.HistogramMetric { return g.of("worked") }
func (g gauges) NewRetriesMetric(string) workqueue.CounterMetric        { return g.of("retries") }
func (g gauges) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return g.of("unfinished")
}
func (g gauges) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return g.of("longest")
}

// TestQueueMetrics of two keys of ten seconds that two workers have, with five seconds in between, and one that waits.
func TestQueueMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := gauges{}
		loop := New(Config{Workers: 2, Clock: clock.RealClock{}, Metrics: metrics},
			func(ctx context.Context, key string) error {
				time.Sleep(10 * time.Second)
				return nil
			})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = loop.Run(ctx) }()
		is := func(want map[string]float64) {
			t.Helper()
			synctest.Wait()
			loop.queue.mu.Lock()
			defer loop.queue.mu.Unlock()
			for name, g := range metrics {
				if g.value != want[name] {
					t.Errorf("%s: %v, want %v", name, g.value, want[name])
				}
			}
		}
		loop.Add("a")
		loop.Add("a")
		time.Sleep(5 * time.Second)
		loop.Add("b")
		loop.AddAfter("c", 0)
		loop.queue.addAfter("c", 0)
		is(map[string]float64{"adds": 3, "depth": 1, "retries": 1, "unfinished": 5, "longest": 5})
		time.Sleep(4 * time.Second)
		is(map[string]float64{"adds": 3, "depth": 1, "retries": 1, "unfinished": 13, "longest": 9})
		time.Sleep(time.Minute)
		is(map[string]float64{"adds": 3, "retries": 1, "waited": 5, "worked": 30})
		cancel()
	})
}
