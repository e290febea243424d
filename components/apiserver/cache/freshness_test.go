package cache

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// deaf is a store whose watch brings nothing, as a member of a cluster that lags behind.
type deaf struct {
	storage.Store
	asked atomic.Int32 // for progress
}

func (d *deaf) Watch(ctx context.Context, _ string, after int64) storage.Watcher {
	return d.Store.Watch(ctx, "/elsewhere/", after)
}

func (d *deaf) RequestProgress(context.Context) error {
	d.asked.Add(1)
	return nil
}

// readsNewest reads in all ways that want the newest there is, while the cache has nothing of it.
func readsNewest(t *testing.T, f *fixture) {
	t.Helper()
	var last *Entry
	for _, name := range []string{"x", "y"} {
		last = f.create("a", name, "")
	}
	if e, err := f.pods.Get(f.ctx, last.Key, ""); err != nil || e.Revision != last.Revision {
		t.Errorf("get: %+v, %v", e, err)
	}
	if _, err := f.pods.Get(f.ctx, f.pods.Key("a", "none"), ""); !apierrors.IsNotFound(err) {
		t.Errorf("get of what isn't there: %v", err)
	}
	first := f.list(ListOptions{Limit: 1})
	f.wantNames(first, "a/x")
	f.wantNames(f.list(ListOptions{Limit: 1, Continue: first.Continue}), "a/y")
	inconsistent := encodeContinue(f.pods.Key("a", "y"), f.pods.keys.prefix, false, -1)
	f.wantNames(f.list(ListOptions{Limit: 1, Continue: inconsistent}), "a/y")
	f.wantNames(f.list(ListOptions{ResourceVersion: formatRevision(last.Revision),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact}), "a/x a/y")
	w, err := f.pods.Watch(f.ctx, WatchOptions{})
	f.must(err)
	w.Close()
}

// TestLaggingCache: who wants the newest gets it from the store when the cache doesn't become as new in time.
func TestLaggingCache(t *testing.T) {
	f := start(t, &deaf{Store: memory.New(nil)}, Config{})
	f.set.timeout = getShare * time.Millisecond
	readsNewest(t, f)
	if n := f.pods.Counts(); n.FellBack != 4 || n.FellFailing+n.Failed+n.Consistent != 0 {
		t.Errorf("counted %+v", n)
	}
	if _, err := f.pods.Get(f.ctx, f.pods.Key("a", "x"), formatRevision(f.set.Revision()+1)); !isTooLarge(err) {
		t.Errorf("get of a version that the cache has yet to see: %v", err)
	}
	if _, err := f.pods.List(f.ctx,
		ListOptions{ResourceVersion: "1000", ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !isTooLarge(
		err) {
		t.Errorf("list of the future: %v", err)
	}
}

// TestUntrustworthyProgress: a store that can't be asked how far it is isn't, and reads of the newest go there.
func TestUntrustworthyProgress(t *testing.T) {
	store := &deaf{Store: memory.New(nil)}
	f := start(t, store, Config{Progress: func() bool { return false }})
	f.set.timeout = getShare * time.Millisecond
	readsNewest(t, f)
	yes := true
	if _, err := f.pods.Watch(f.ctx, WatchOptions{SendInitialEvents: &yes}); !errors.Is(err, ErrUntold) {
		t.Errorf("watch of what there is: %v", err)
	}
	n := f.pods.Counts()
	if store.asked.Load() != 0 || n.FellBack+n.FellFailing+n.Failed+n.Consistent != 0 {
		t.Errorf("asked %d times, counted %+v", store.asked.Load(), n)
	}
}

// TestOneAtTheFuture: who names the object, too, is told at once of a version that the store doesn't have.
func TestOneAtTheFuture(t *testing.T) {
	f := startMemory(t)
	last := f.create("a", "x", "")
	_, err := f.pods.List(f.ctx, ListOptions{
		Namespace: "a", ResourceVersion: fmt.Sprint(last.Revision + 1000),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		Predicate:            predicate(map[string]string{"fields": "metadata.name=x"}),
	})
	if seconds, again := apierrors.SuggestsClientDelay(err); !isTooLarge(err) || again && seconds > 0 {
		t.Errorf("got %v, again in %d", err, seconds)
	}
}

// TestCatchUp: what was written past the cache is there afterwards; a watch that stands still is not waited for for
// good.
func TestCatchUp(t *testing.T) {
	f := start(t, memory.New(nil), Config{})
	f.create("a", "x", "")
	f.must(f.set.CatchUp(f.ctx))
	if _, ok := f.pods.Peek(f.pods.Key("a", "x")); !ok {
		t.Error("the cache lacks what was written")
	}
	lagging := start(t, &deaf{Store: memory.New(nil)}, Config{})
	lagging.set.timeout = time.Millisecond
	lagging.create("a", "x", "")
	lagging.must(lagging.set.CatchUp(lagging.ctx))
	ended, end := context.WithCancel(lagging.ctx)
	end()
	if err := lagging.set.CatchUp(ended); err == nil {
		t.Error("it was waited for after the end")
	}
}
