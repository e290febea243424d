package forward

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// fakeKernel counts syncs, which fail with an error if there is one. The test holds mu while it looks.
type fakeKernel struct {
	mu     sync.Mutex
	err    error
	states []State
	closed bool
}

func (k *fakeKernel) Apply(_ context.Context, state State) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states = append(k.states, state)
	return k.err
}

func (k *fakeKernel) state(i int) State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.states[i]
}

func (k *fakeKernel) Serve(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (k *fakeKernel) Close() error { k.closed = true; return nil }

func TestPathSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKernel{}
		var results []error
		p := New(Config{
			Kernel: k, ProxyPort: 10256, Period: time.Hour, Timeout: time.Hour, Resync: time.Minute,
			Clock: clock.RealClock{},
			Synced: func(_ time.Time, _ State, err error) {
				k.mu.Lock()
				defer k.mu.Unlock()
				results = append(results, err)
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		step := func(what string, wait time.Duration, syncs int) {
			t.Helper()
			time.Sleep(wait) // of the bubble's clock
			synctest.Wait()
			k.mu.Lock()
			defer k.mu.Unlock()
			if len(k.states) != syncs || len(results) != syncs {
				t.Errorf("%s: %d syncs, %d results, want %d", what, len(k.states), len(results), syncs)
			}
		}
		p.Set("default/a", Balancer{Addresses: []netip.Addr{ip("10.0.0.200")}})
		step("before the nodes are known", time.Hour, 0)
		p.SetNodes(nil, []netip.Addr{ip("10.0.0.2")})
		step("nodes", 0, 1)
		if s := k.state(0); len(s.Routes) != 1 || len(s.Nodes) != 1 {
			t.Errorf("the first state is %+v", s)
		}
		p.SetNodes(nil, []netip.Addr{ip("10.0.0.2")})
		step("the same nodes", 0, 1)
		step("without a cause", time.Minute, 2)
		fail := func(err error) { k.mu.Lock(); defer k.mu.Unlock(); k.err = err }
		fail(errors.New("no route to host"))
		p.SetNodes(nil, []netip.Addr{ip("10.0.0.3")})
		step("other nodes", 0, 3)
		step("a retry", retryDelay, 4)
		fail(nil)
		step("a successful retry", retryDelay, 5)
		step("after it", time.Minute-time.Millisecond, 5)
		k.mu.Lock()
		if results[3] == nil || results[4] != nil {
			t.Errorf("results %v", results)
		}
		k.mu.Unlock()
		p.Delete("default/a")
		step("no load balancer", 0, 6)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || !k.closed || len(k.states[5].Routes) != 0 {
			t.Errorf("Run returned %v, closed: %v, last state %+v", err, k.closed, k.states[5])
		}
	})
}
