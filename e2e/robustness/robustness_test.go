package robustness

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

var (
	length = flag.Duration("length", 30*time.Second, "how long things are broken, per test")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "chooses what is broken when, and what clients do")
)

const (
	clients  = 6
	watchers = 4
	// judging bounds the search for an order in which the history makes sense.
	judging = 2 * time.Minute
)

// TestHistory: whatever is broken, writes happen once and stay, reads see the last one, and watches tell everything in
// order.
func TestHistory(t *testing.T) {
	t.Logf("seed %d", *seed)
	dir := t.TempDir()
	s := newSite(t, dir)
	var sides []typedv1.ConfigMapInterface
	first, err := s.etcd.Get(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	var told truth
	following, stopFollowing := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- told.follow(following, s.etcd, first.Header.Revision+1) }()

	ctx, stop := context.WithTimeout(t.Context(), *length)
	defer stop()
	h, values := &history{began: time.Now()}, &atomic.Int64{}
	var all []*watcher
	var running sync.WaitGroup
	for i := range clients {
		sides = nil
		for server := range s.servers {
			sides = append(sides, s.client(t, server).CoreV1().ConfigMaps(namespace))
		}
		c := &client{id: i, objects: sides, history: h, values: values, random: rand.New(rand.NewPCG(*seed, uint64(i))),
			seen: map[string]int64{}}
		running.Go(func() { c.run(ctx) })
	}
	watching, stopWatching := context.WithCancel(context.Background())
	defer stopWatching()
	var looking sync.WaitGroup
	for range watchers {
		sides = nil
		for server := range s.servers {
			sides = append(sides, s.client(t, server).CoreV1().ConfigMaps(namespace))
		}
		w := &watcher{objects: sides}
		all = append(all, w)
		looking.Go(func() { w.run(watching) })
	}
	torment(ctx, t, s, rand.New(rand.NewPCG(*seed, clients)))
	running.Wait()
	for i := range s.servers {
		s.await(t, i)
	}
	last := s.settle(t, &told)
	wait(t.Context(), 3*time.Second) // a watch is resumed at least once
	stopWatching()
	looking.Wait()
	stopFollowing()
	if err := <-followed; err != nil {
		t.Fatal(err)
	}
	checkLinearizable(t, h.done)
	for i, w := range all {
		if err := told.verify(w); err != nil {
			t.Errorf("watcher %d: %v", i, err)
		}
		if end := w.stretches[len(w.stretches)-1]; w.last < last {
			t.Errorf("watcher %d was told nothing after %d of %d; its last stretch began at %d", i, w.last,
				last, end.from)
		}
		t.Logf("watcher %d: %d watches, %d lists", i, w.resumes, w.lists)
	}
	t.Logf("%d operations, %d changes", len(h.done), len(told.events))
}

// settle makes one more change, waits until it is part of the truth, and returns its version.
func (s *site) settle(t *testing.T, told *truth) int64 {
	t.Helper()
	c := &client{objects: []typedv1.ConfigMapInterface{s.client(t, 0).CoreV1().ConfigMaps(namespace)},
		random: rand.New(rand.NewPCG(0, 0))}
	r := c.ask(t.Context(), request{verb: create, key: "the-last", value: "last"})
	if r.outcome != done {
		t.Fatalf("a write when everything runs again: %+v", r)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		told.mu.Lock()
		reached := told.reached
		told.mu.Unlock()
		if reached >= r.version {
			return r.version
		}
		if time.Now().After(deadline) {
			t.Fatalf("etcd told of %d only, not of %d", reached, r.version)
		}
	}
}

// checkLinearizable checks that the operations are linearizable. If they are not, it writes a visualization.
func checkLinearizable(t *testing.T, operations []porcupine.Operation) {
	t.Helper()
	uncertain := 0
	for _, o := range operations {
		if o.Output.(response).outcome == unknown {
			uncertain++
		}
	}
	t.Logf("%d operations, %d of unknown outcome", len(operations), uncertain)
	if len(operations) < 100 {
		t.Errorf("only %d operations: that proves nothing", len(operations))
	}
	result, info := porcupine.CheckOperationsVerbose(model(), operations, judging)
	if result == porcupine.Ok {
		return
	}
	picture := filepath.Join(os.TempDir(), "quintet-history.html")
	if err := porcupine.VisualizePath(model(), info, picture); err != nil {
		picture = err.Error()
	}
	t.Errorf("the history is not linearizable (%s); see %s, and try again with -seed %d", result, picture, *seed)
}
