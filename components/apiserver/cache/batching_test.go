package cache

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestWaves: many watchers get the first event at once, and those that follow together, when the batch is due. Few
// watchers get each event at once.
func TestWaves(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1_000_000_000, 0))
	f := start(t, memory.New(clock), Config{Clock: clock})
	first := f.create("a", "x", "n1")
	watch := func(p Predicate) *Watcher {
		w, err := f.pods.Watch(f.ctx, WatchOptions{ResourceVersion: formatRevision(first.Revision), Predicate: p})
		f.must(err)
		t.Cleanup(w.Close)
		return w
	}
	var many []*Watcher
	for range batchedFrom {
		many = append(many, watch(Predicate{}))
	}
	alone := watch(Predicate{Field: fields.ParseSelectorOrDie("spec.nodeName=n1")})
	change := func() {
		f.alter("a", "x", func(p *corev1.Pod) { p.Generation++ })
		f.list(ListOptions{}) // the event has come
	}
	awake := func(w *Watcher) bool { return len(w.wake) > 0 }
	read := func(w *Watcher, want int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
		defer cancel()
		events, err := w.Next(ctx)
		f.must(err)
		if len(events) != want {
			t.Errorf("%d events at once, want %d", len(events), want)
		}
		last := fmt.Sprint(f.list(ListOptions{}).Entries[0].Revision)
		if got := events[len(events)-1].Entry.Object.GetResourceVersion(); got != last {
			t.Errorf("the last event is of version %s, want %s", got, last)
		}
	}
	wave := func() {
		coming := func() bool {
			f.pods.state.mu.Lock()
			defer f.pods.state.mu.Unlock()
			return f.pods.state.watchers.all.coming
		}
		for coming() {
			clock.Step(batchedFrom * waveShare)
		}
	}
	change()
	for _, w := range append(many, alone) {
		read(w, 1)
	}
	for range 3 {
		change()
		read(alone, 1)
		for _, w := range many {
			if awake(w) {
				t.Fatal("a watcher of many is woken before it is time")
			}
		}
	}
	wave()
	for _, w := range many {
		read(w, 3)
	}
	clock.Step(waveMax)
	change()
	for _, w := range many {
		if !awake(w) {
			t.Fatal("a watcher isn't told at once though it was long ago that it was told something")
		}
		read(w, 1)
	}
	// Those who are told together read the same, whatever comes before they do.
	clock.Step(waveMax)
	change()
	change()
	for _, w := range many {
		if events, err := w.Next(f.ctx); err != nil || len(events) != 1 {
			t.Fatalf("%d events of a wave of one: %v", len(events), err)
		}
	}
	wave()
	for _, w := range many {
		read(w, 1)
	}
	// One that ends in between is told so at once.
	change()
	f.pods.state.mu.Lock()
	f.pods.state.watchers.endAll(errExpired("over"))
	f.pods.state.mu.Unlock()
	for _, w := range many {
		read(w, 1)
		if _, err := w.Next(f.ctx); err == nil {
			t.Error("a watch goes on after its end")
		}
	}
}
