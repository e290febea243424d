package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// fault breaks something, and returns what mends it.
type fault struct {
	name string
	do   func(ctx context.Context, s *site, r *rand.Rand) (mend func() error)
}

// faults is all that is broken. Everything but the whole site keeps running meanwhile.
func faults() []fault {
	return []fault{
		{"the leader of etcd is killed", func(ctx context.Context, s *site, _ *rand.Rand) func() error {
			p := s.members[max(s.leader(ctx), 0)]
			p.kill()
			return p.start
		}},
		{"the leader of etcd is paused", func(ctx context.Context, s *site, _ *rand.Rand) func() error {
			p := s.members[max(s.leader(ctx), 0)]
			p.signal(syscall.SIGSTOP)
			return func() error { p.signal(syscall.SIGCONT); return nil }
		}},
		{"an API server is killed", func(_ context.Context, s *site, r *rand.Rand) func() error {
			p := s.servers[r.IntN(len(s.servers))]
			p.kill()
			return p.start
		}},
		{"an API server is paused", func(_ context.Context, s *site, r *rand.Rand) func() error {
			p := s.servers[r.IntN(len(s.servers))]
			p.signal(syscall.SIGSTOP)
			return func() error { p.signal(syscall.SIGCONT); return nil }
		}},
		{"clients are cut off from an API server", func(_ context.Context, s *site, r *rand.Rand) func() error {
			l := s.toServer[r.IntN(len(s.toServer))]
			l.set(false)
			return func() error { l.set(true); return nil }
		}},
		{"the API servers are cut off from a member of etcd", func(_ context.Context, s *site,
			r *rand.Rand) func() error {
			l := s.toStore[r.IntN(len(s.toStore))]
			l.set(false)
			return func() error { l.set(true); return nil }
		}},
		{"the API servers are cut off from etcd", func(_ context.Context, s *site, _ *rand.Rand) func() error {
			for _, l := range s.toStore {
				l.set(false)
			}
			return func() error {
				for _, l := range s.toStore {
					l.set(true)
				}
				return nil
			}
		}},
		{"etcd's history is forgotten", func(ctx context.Context, s *site, _ *rand.Rand) func() error {
			if now, err := s.etcd.Get(ctx, "/"); err == nil {
				_, _ = s.etcd.Compact(ctx, now.Header.Revision)
			}
			return func() error { return nil }
		}},
	}
}

// torment breaks one thing after the other, all of them before any again, until ctx ends; then everything runs.
func torment(ctx context.Context, t *testing.T, s *site, r *rand.Rand) {
	began := time.Now()
	for {
		all := faults()
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, f := range all {
			t.Logf("%6.2f s: %s", time.Since(began).Seconds(), f.name)
			mend := f.do(context.WithoutCancel(ctx), s, r)
			wait(ctx, 300*time.Millisecond+time.Duration(r.IntN(1500))*time.Millisecond)
			if err := mend(); err != nil {
				t.Error(fmt.Errorf("%s: %w", f.name, err))
				return
			}
			if wait(ctx, 500*time.Millisecond+time.Duration(r.IntN(1000))*time.Millisecond); ctx.Err() != nil {
				return
			}
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
