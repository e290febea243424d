package cache

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestCompare finds the first difference, on whichever page of the store's list it is.
func TestCompare(t *testing.T) {
	const n = loadPage + 10
	f := startMemory(t)
	key := func(i int) string { return f.pods.Key("a", fmt.Sprintf("x%05d", i)) }
	revisions := make([]int64, n)
	for i := range revisions {
		revisions[i] = f.create("a", fmt.Sprintf("x%05d", i), "").Revision
	}
	f.list(ListOptions{})
	_, err := f.store.Create(f.ctx, f.pods.Key("a", "broken"), []byte("?"), 0)
	f.must(err)
	_, err = f.store.Create(f.ctx, f.set.prefix+"others/a/x", []byte("?"), 0)
	f.must(err)
	for wait := time.Now().Add(time.Minute); f.pods.state.broken.at(f.pods.Key("a", "broken")) == nil &&
		time.Now().Before(wait); {
		time.Sleep(time.Millisecond)
	}
	for name, c := range map[string]struct {
		spoil func(items *tree)
		want  difference
	}{
		"nothing": {func(*tree) {}, difference{}},
		"lost": {func(s *tree) { s.items.Delete(&Entry{Key: key(7)}) },
			difference{key: key(7), stored: revisions[7]}},
		"late": {func(s *tree) { s.items.Set(&Entry{Key: key(n - 2), Revision: 1}) },
			difference{key: key(n - 2), cached: 1, stored: revisions[n-2]}},
		"made up": {func(s *tree) { s.items.Set(&Entry{Key: key(5) + "a", Revision: 9}) },
			difference{key: key(5) + "a", cached: 9}},
		"too long": {func(s *tree) { s.items.Set(&Entry{Key: key(n), Revision: 9}) },
			difference{key: key(n), cached: 9}},
		"cut off": {func(s *tree) { s.items.Delete(&Entry{Key: key(n - 1)}) },
			difference{key: key(n - 1), stored: revisions[n-1]}},
	} {
		f.pods.state.mu.Lock()
		right := f.pods.state.objects.items
		f.pods.state.objects.items, f.pods.state.objects.view = right.Copy(), nil
		c.spoil(&f.pods.state.objects.tree)
		f.pods.state.mu.Unlock()
		got, _, err := f.pods.compare(f.ctx)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, c.want)
		}
		f.pods.state.mu.Lock()
		f.pods.state.objects.items, f.pods.state.objects.view = right, nil
		f.pods.state.mu.Unlock()
	}
}

// TestInconsistency: a cache that has lost an object is detected after a while and refilled, and its watches end.
func TestInconsistency(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	f := start(t, memory.New(nil), Config{Clock: clk})
	lost := f.create("a", "lost", "")
	f.list(ListOptions{})
	w, err := f.pods.Watch(f.ctx, WatchOptions{ResourceVersion: formatRevision(f.set.Revision())})
	f.must(err)
	defer w.Close()
	f.pods.state.mu.Lock()
	f.pods.state.objects.items.Delete(lost)
	f.pods.state.objects.view = nil
	f.pods.state.mu.Unlock()
	if n := len(f.list(ListOptions{}).Entries); n != 0 {
		t.Fatalf("%d objects", n)
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = w.Next(f.ctx)
		}
		ended <- err
	}()
	await := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
			clk.Step(time.Second)
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, f.pods.Counts())
			}
		}
	}
	await("the cache stays wrong", func() bool { _, ok := f.pods.Peek(lost.Key); return ok })
	if err := <-ended; !apierrors.IsResourceExpired(err) {
		t.Errorf("watch: %v", err)
	}
	await("it isn't found right", func() bool { return f.pods.Counts().Same > 0 })
	if c := f.pods.Counts(); c.Different != 1 || c.Loads != 2 {
		t.Errorf("%+v", c)
	}
}

// TestHopelessInconsistency: a difference that a refill has not fixed is counted, and watches are not ended again.
func TestHopelessInconsistency(t *testing.T) {
	f := start(t, memory.New(nil), Config{NoChecks: true}) // but for the one below
	lost := f.create("a", "lost", "")
	f.list(ListOptions{})
	f.pods.state.mu.Lock()
	f.pods.state.objects.items.Delete(lost)
	f.pods.state.objects.view = nil
	f.pods.state.mu.Unlock()
	f.pods.different = true
	f.set.checkOne(f.ctx, f.pods)
	if c := f.pods.Counts(); c.Different != 1 || c.Loads != 1 || !f.pods.different {
		t.Errorf("filled anew without hope: %+v", c)
	}
	if n := len(f.list(ListOptions{}).Entries); n != 0 {
		t.Errorf("%d objects", n)
	}
}

// TestNoChecks: who doesn't want them has none.
func TestNoChecks(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	f := start(t, memory.New(nil), Config{Clock: clk, NoChecks: true})
	for range 20 {
		clk.Step(time.Minute)
		time.Sleep(time.Millisecond)
	}
	if c := f.pods.Counts(); c.Same+c.Different+c.Unchecked != 0 {
		t.Errorf("%+v", c)
	}
}
