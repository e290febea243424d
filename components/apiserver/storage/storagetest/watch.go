package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"quintet.dev/quintet/components/apiserver/storage"
)

func watch(t *testing.T, s *tester) {
	before := s.create("a", "1")
	w := s.Watch(s.ctx, s.prefix, before)
	updated := s.update("a", "2", before)
	created := s.create("b", "1")
	_, err := s.Create(s.ctx, "/elsewhere"+s.prefix+"c", nil, 0)
	s.must(err)
	removed := s.remove("a", updated)
	same(t, "events", s.script(s.collect(w, 3)), []string{
		fmt.Sprintf("a=2@%d", updated), fmt.Sprintf("b=1@%d", created), fmt.Sprintf("-a@%d", removed),
	})
}

func watchFromThePast(t *testing.T, s *tester) {
	a := s.create("a", "1")
	b := s.update("a", "2", a)
	c := s.remove("a", b)
	all := []string{fmt.Sprintf("a=1@%d", a), fmt.Sprintf("a=2@%d", b), fmt.Sprintf("-a@%d", c)}
	same(t, "from the start", s.script(s.collect(s.Watch(s.ctx, s.prefix, a-1), 3)), all)
	same(t, "from between", s.script(s.collect(s.Watch(s.ctx, s.prefix, b), 1)), all[2:])
}

// watchUnderLoad has writers and watchers work at once: each watcher must see every event, in order.
func watchUnderLoad(t *testing.T, s *tester) {
	const writers, each, watchers = 4, 200, 3
	start, err := s.Revision(s.ctx)
	s.must(err)
	var watches []storage.Watcher
	for range watchers {
		watches = append(watches, s.Watch(s.ctx, s.prefix, start))
	}
	var writing sync.WaitGroup
	defer writing.Wait() // watchers may see a write before the writer returns
	for i := range writers {
		writing.Go(func() {
			for j := range each {
				if _, err := s.Create(s.ctx, fmt.Sprintf("%s%d/%d", s.prefix, i, j), []byte("v"), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, w := range watches {
		last, seen := int64(0), map[string]bool{}
		for _, e := range s.collect(w, writers*each) {
			if e.Revision <= last || seen[e.Key] {
				t.Fatalf("%s at %d after %d, seen before: %v", e.Key, e.Revision, last, seen[e.Key])
			}
			last, seen[e.Key] = e.Revision, true
		}
	}
}

func watchEnds(t *testing.T, s *tester) {
	ctx, cancel := context.WithCancel(s.ctx)
	w := s.Watch(ctx, s.prefix, 0)
	cancel()
	for {
		select {
		case _, open := <-w.Events():
			if !open {
				s.must(w.Err())
				return
			}
		case <-s.ctx.Done():
			t.Fatal("the watch goes on after its context has ended")
		}
	}
}

func progress(t *testing.T, s *tester) {
	start := s.create("a", "1")
	w := s.Watch(s.ctx, s.prefix, start)
	// The watch is established when it delivers.
	s.update("a", "2", start)
	s.collect(w, 1)
	other, err := s.Create(s.ctx, "/elsewhere"+s.prefix, nil, 0)
	s.must(err)
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	s.must(s.RequestProgress(s.ctx))
	for {
		select {
		case batch, open := <-w.Events():
			if !open {
				t.Fatal("watch ended:", w.Err())
			}
			if e := batch[len(batch)-1]; e.Type == storage.Progress && e.Revision >= other {
				return
			}
		case <-again.C:
			s.must(s.RequestProgress(s.ctx))
		case <-s.ctx.Done():
			t.Fatal("no progress event")
		}
	}
}

func compaction(t *testing.T, s *tester) {
	a := s.create("a", "1")
	b := s.update("a", "2", a)
	c := s.update("a", "3", b)
	s.must(s.Compact(s.ctx, c))
	_, err := s.List(s.ctx, storage.Range{Prefix: s.prefix, Revision: b})
	s.wantErr(err, storage.ErrCompacted)
	same(t, "at the compacted revision", names(s, s.list(storage.Range{Revision: c})), []string{"a"})
	s.wantErr(s.Compact(s.ctx, c), storage.ErrCompacted)

	w := s.Watch(s.ctx, s.prefix, a)
	select {
	case batch, open := <-w.Events():
		if open {
			t.Fatalf("a watch of what is compacted delivers %v", s.script(batch))
		}
		s.wantErr(w.Err(), storage.ErrCompacted)
	case <-s.ctx.Done():
		t.Fatal("a watch of what is compacted doesn't end")
	}
	w = s.Watch(s.ctx, s.prefix, c)
	d := s.remove("a", c)
	same(t, "after compaction", s.script(s.collect(w, 1)), []string{fmt.Sprintf("-a@%d", d)})
}

func ttl(t *testing.T, s *tester) {
	for saved := false; !saved; { // in time, if not at once
		created, err := s.Create(s.ctx, s.prefix+"saved", []byte("1"), time.Second)
		s.must(err)
		_, err = s.Update(s.ctx, s.prefix+"saved", []byte("2"), created, 0)
		var conflict *storage.ConflictError
		if saved = err == nil; !saved && (!errors.As(err, &conflict) || conflict.Current.Revision != 0) {
			t.Fatal(err)
		}
	}
	short, err := s.Create(s.ctx, s.prefix+"short", []byte("1"), time.Second)
	s.must(err)
	w := s.Watch(s.ctx, s.prefix, short)
	for {
		if e := s.collect(w, 1)[0]; e.Type == storage.Delete {
			if e.Key != s.prefix+"short" {
				t.Fatalf("%s has gone", e.Key)
			}
			break
		}
	}
	same(t, "what is left", names(s, s.list(storage.Range{})), []string{"saved"})
}
