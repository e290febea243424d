// Package robustness checks histories: what clients saw of API servers on a cluster of etcd while both were killed,
// paused and cut off, against what an API server may answer and against what etcd has.
package robustness

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"quintet.dev/quintet/checks"
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
	h, values := checks.NewHistory(), &atomic.Int64{}
	all := s.watchers(t)
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
	for _, w := range all {
		looking.Go(func() { w.Run(watching) })
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
	checkLinearizable(t, h.Operations())
	truth := checks.Stretch{From: first.Header.Revision, Events: told.events}
	for i, w := range all {
		if err := errors.Join(w.Order(), w.Complete(truth)); err != nil {
			t.Errorf("watcher %d: %v", i, err)
		}
		if w.LastVersion() < last {
			t.Errorf("watcher %d was told nothing after %d of %d", i, w.LastVersion(), last)
		}
		t.Logf("watcher %d: %d watches, %d lists", i, w.Resumes(), len(w.Stretches()))
	}
	t.Logf("%d operations, %d changes", len(h.Operations()), len(told.events))
}

// settle makes one more change, waits until it is part of the truth, and returns its version.
func (s *site) settle(t *testing.T, told *truth) int64 {
	t.Helper()
	c := &client{objects: []typedv1.ConfigMapInterface{s.client(t, 0).CoreV1().ConfigMaps(namespace)},
		random: rand.New(rand.NewPCG(0, 0))}
	r := c.ask(t.Context(), checks.Request{Verb: checks.Create, Key: "the-last", Value: "last"})
	if r.Outcome != checks.Done {
		t.Fatalf("a write when everything runs again: %+v", r)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		told.mu.Lock()
		reached := told.reached
		told.mu.Unlock()
		if reached >= r.Version {
			return r.Version
		}
		if time.Now().After(deadline) {
			t.Fatalf("etcd told of %d only, not of %d", reached, r.Version)
		}
	}
}

// checkLinearizable checks that the operations are linearizable. If they are not, it writes a visualization.
func checkLinearizable(t *testing.T, operations []checks.Operation) {
	t.Helper()
	uncertain := 0
	for _, o := range operations {
		if o.Outcome == checks.Unknown {
			uncertain++
		}
	}
	t.Logf("%d operations, %d of unknown outcome", len(operations), uncertain)
	if len(operations) < 100 {
		t.Errorf("only %d operations: that proves nothing", len(operations))
	}
	err := checks.Linearizable(operations, judging)
	if err == nil {
		return
	}
	picture, failed := os.Create(filepath.Join(os.TempDir(), "quintet-history.html"))
	if failed == nil {
		failed = errors.Join(checks.Visualize(picture, operations, judging), picture.Close())
	}
	t.Errorf("%v\nsee quintet-history.html in %s (%v), and try again with -seed %d", err, os.TempDir(), failed, *seed)
}
