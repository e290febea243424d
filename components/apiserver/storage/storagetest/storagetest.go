// Package storagetest is the contract of storage.Store, as tests that every implementation runs.
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quintet.dev/quintet/components/apiserver/storage"
)

// conditionTimeout is how long a condition may take before a test gives up.
const conditionTimeout = 30 * time.Second

// Run checks the contract. fresh makes a store for one test and ends it with that test; stores may share their content,
// since each test keeps to a prefix of its own.
func Run(t *testing.T, fresh func(t *testing.T) storage.Store) {
	for name, check := range map[string]func(*testing.T, *tester){
		"CreateGetUpdateDelete": writes,
		"Conflicts":             conflicts,
		"RacingUpdates":         racingUpdates,
		"TooLarge":              tooLarge,
		"Paging":                paging,
		"ListAtRevision":        listAtRevision,
		"PrefixIsAFolder":       folders,
		"Watch":                 watch,
		"WatchFromThePast":      watchFromThePast,
		"WatchUnderLoad":        watchUnderLoad,
		"WatchEndsWithContext":  watchEnds,
		"Progress":              progress,
		"Compaction":            compaction,
		"TTL":                   ttl,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), conditionTimeout)
			defer cancel()
			check(t, &tester{Store: fresh(t), t: t, ctx: ctx, prefix: "/" + t.Name() + "/"})
		})
	}
}

// tester has the store's verbs, which fail the test instead of returning errors.
type tester struct {
	storage.Store
	t      *testing.T
	ctx    context.Context
	prefix string
}

func (s *tester) create(name, value string) int64 {
	s.t.Helper()
	r, err := s.Create(s.ctx, s.prefix+name, []byte(value), 0)
	s.must(err)
	return r
}

func (s *tester) update(name, value string, expected int64) int64 {
	s.t.Helper()
	r, err := s.Update(s.ctx, s.prefix+name, []byte(value), expected, 0)
	s.must(err)
	return r
}

func (s *tester) remove(name string, expected int64) int64 {
	s.t.Helper()
	r, err := s.Delete(s.ctx, s.prefix+name, expected)
	s.must(err)
	return r
}

func (s *tester) list(r storage.Range) storage.Page {
	s.t.Helper()
	r.Prefix = s.prefix + r.Prefix
	page, err := s.List(s.ctx, r)
	s.must(err)
	return page
}

func (s *tester) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *tester) wantErr(err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Fatalf("got error %v, want %v", err, want)
	}
}

// script renders events for comparison, with names below the tester's prefix.
func (s *tester) script(events []storage.Event) []string {
	out := make([]string, 0, len(events))
	for _, e := range events {
		name := e.Key[min(len(s.prefix), len(e.Key)):]
		switch e.Type {
		case storage.Put:
			out = append(out, fmt.Sprintf("%s=%s@%d", name, e.Value, e.Revision))
		case storage.Delete:
			out = append(out, fmt.Sprintf("-%s%s@%d", name, e.Value, e.Revision))
		}
	}
	return out
}

// collect reads n changes.
func (s *tester) collect(w storage.Watcher, n int) []storage.Event {
	s.t.Helper()
	var got []storage.Event
	for len(got) < n {
		select {
		case batch, open := <-w.Events():
			if !open {
				s.t.Fatalf("watch ended after %v: %v", s.script(got), w.Err())
			}
			for _, e := range batch {
				if e.Type != storage.Progress {
					got = append(got, e)
				}
			}
		case <-s.ctx.Done():
			s.t.Fatalf("watch gave only %v", s.script(got))
		}
	}
	return got
}

func same[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func writes(t *testing.T, s *tester) {
	_, err := s.Get(s.ctx, s.prefix+"a")
	s.wantErr(err, storage.ErrNotFound)
	created := s.create("a", "1")
	_, err = s.Create(s.ctx, s.prefix+"a", []byte("x"), 0)
	s.wantErr(err, storage.ErrExists)
	updated := s.update("a", "2", created)
	if updated <= created {
		t.Fatalf("revision %d after %d", updated, created)
	}
	kv, err := s.Get(s.ctx, s.prefix+"a")
	s.must(err)
	if string(kv.Value) != "2" || kv.Revision != updated || kv.Key != s.prefix+"a" {
		t.Fatalf("got %+v", kv)
	}
	removed := s.remove("a", updated)
	now, err := s.Revision(s.ctx)
	s.must(err)
	if removed <= updated || now < removed {
		t.Fatalf("removed at %d after %d, now %d", removed, updated, now)
	}
	_, err = s.Get(s.ctx, s.prefix+"a")
	s.wantErr(err, storage.ErrNotFound)
	s.create("a", "again")
}

func conflicts(t *testing.T, s *tester) {
	first := s.create("a", "1")
	second := s.update("a", "2", first)
	wantConflict := func(err error, revision int64, value string) {
		t.Helper()
		var conflict *storage.ConflictError
		if !errors.As(err, &conflict) {
			t.Fatalf("got %v, want a conflict", err)
		}
		if conflict.Current.Revision != revision || string(conflict.Current.Value) != value {
			t.Fatalf("conflict tells %+v, want %q at %d", conflict.Current, value, revision)
		}
	}
	_, err := s.Update(s.ctx, s.prefix+"a", []byte("3"), first, 0)
	wantConflict(err, second, "2")
	_, err = s.Delete(s.ctx, s.prefix+"a", first)
	wantConflict(err, second, "2")
	_, err = s.Update(s.ctx, s.prefix+"gone", []byte("3"), first, 0)
	wantConflict(err, 0, "")
	_, err = s.Delete(s.ctx, s.prefix+"gone", first)
	wantConflict(err, 0, "")
}

// tooLarge writes values that are larger than what etcd takes, and than what its client sends.
func tooLarge(t *testing.T, s *tester) {
	first := s.create("a", strings.Repeat("x", 1<<20))
	wantTooLarge := func(err error) {
		t.Helper()
		var large *storage.TooLargeError
		if !errors.As(err, &large) {
			t.Fatalf("got %v, want that it is too large", err)
		}
	}
	for _, size := range []int{7 << 18, 3 << 20} {
		_, err := s.Create(s.ctx, s.prefix+"b", make([]byte, size), 0)
		wantTooLarge(err)
		_, err = s.Update(s.ctx, s.prefix+"a", make([]byte, size), first, 0)
		wantTooLarge(err)
	}
	if page := s.list(storage.Range{}); len(page.Items) != 1 || page.Items[0].Revision != first {
		t.Fatalf("refused writes left something behind: %d keys", len(page.Items))
	}
}

func racingUpdates(t *testing.T, s *tester) {
	const writers, each = 8, 25
	var total atomic.Int64
	s.create("counter", "0")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := increment(s); err != nil {
					t.Error(err)
					return
				}
				total.Add(1)
			}
		})
	}
	wg.Wait()
	kv, err := s.Get(s.ctx, s.prefix+"counter")
	s.must(err)
	if got := string(kv.Value); got != fmt.Sprint(total.Load()) {
		t.Fatalf("counter is %s after %d increments", got, total.Load())
	}
}

func increment(s *tester) error {
	kv, err := s.Get(s.ctx, s.prefix+"counter")
	for err == nil {
		var n int
		if _, err := fmt.Sscan(string(kv.Value), &n); err != nil {
			return err
		}
		_, err := s.Update(s.ctx, kv.Key, fmt.Append(nil, n+1), kv.Revision, 0)
		var conflict *storage.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		kv = conflict.Current
	}
	return err
}

func names(s *tester, page storage.Page) []string {
	var out []string
	for _, kv := range page.Items {
		out = append(out, kv.Key[len(s.prefix):])
	}
	return out
}

func paging(t *testing.T, s *tester) {
	for i := range 7 {
		s.create(fmt.Sprintf("k%d", i), "v")
	}
	first := s.list(storage.Range{Limit: 3})
	same(t, "first page", names(s, first), []string{"k0", "k1", "k2"})
	if !first.More || first.Remaining != 4 || first.Revision == 0 {
		t.Fatalf("first page: %+v", first)
	}
	s.create("k25", "late")
	next := s.list(storage.Range{Limit: 3, From: s.prefix + "k2\x00", Revision: first.Revision})
	same(t, "second page", names(s, next), []string{"k3", "k4", "k5"})
	if !next.More || next.Remaining != 1 || next.Revision != first.Revision {
		t.Fatalf("second page: %+v", next)
	}
	last := s.list(storage.Range{Limit: 3, From: s.prefix + "k5\x00", Revision: first.Revision})
	same(t, "last page", names(s, last), []string{"k6"})
	if last.More || last.Remaining != 0 {
		t.Fatalf("last page: %+v", last)
	}
}

func listAtRevision(t *testing.T, s *tester) {
	a := s.create("a", "1")
	b := s.create("b", "1")
	c := s.update("a", "2", a)
	d := s.remove("b", b)
	for _, at := range []struct {
		revision int64
		want     []string
	}{{a, []string{"a=1"}}, {b, []string{"a=1", "b=1"}}, {c, []string{"a=2", "b=1"}}, {d, []string{"a=2"}},
		{0, []string{"a=2"}}} {
		var got []string
		for _, kv := range s.list(storage.Range{Revision: at.revision}).Items {
			got = append(got, kv.Key[len(s.prefix):]+"="+string(kv.Value))
		}
		same(t, fmt.Sprint("at ", at.revision), got, at.want)
	}
	_, err := s.List(s.ctx, storage.Range{Prefix: s.prefix, Revision: d + 1_000_000})
	s.wantErr(err, storage.ErrFuture)
}

func folders(t *testing.T, s *tester) {
	s.create("pod", "")
	s.create("pod/a", "1")
	s.create("pods/a", "1")
	same(t, "folder", names(s, s.list(storage.Range{Prefix: "pod/"})), []string{"pod/a"})
	same(t, "whole key", names(s, s.list(storage.Range{Prefix: "pod"})), []string{"pod"})
}
