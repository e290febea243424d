package handlers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/registry"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestCutOff: when a watch is over its client gets a last while to read, and the connection is good for others after
// it.
func TestCutOff(t *testing.T) {
	set := make(chan time.Time, 2)
	expire := func(at time.Time) error {
		set <- at
		return nil
	}
	ctx, over := context.WithCancel(t.Context())
	end := cutOff(ctx, expire)
	over()
	if at := <-set; !at.After(time.Now()) {
		t.Errorf("sending fails from %v", at)
	}
	end()
	if at := <-set; !at.IsZero() {
		t.Errorf("sending still fails from %v", at)
	}
	cutOff(t.Context(), expire)()
	if len(set) > 0 {
		t.Error("a watch that its client ended sets something")
	}
}

// TestSlowWatcherIsToldNothing: its watch ends, and what it was sent is all events.
func TestSlowWatcherIsToldNothing(t *testing.T) {
	maps := registrytest.ConfigMaps(t, memory.New(nil))
	behind, fell := context.WithCancel(t.Context())
	w, err := maps.Watch(t.Context(), cache.WatchOptions{Behind: fell})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := 0; behind.Err() == nil; i++ { // the events are not read
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("m%d", i)}}
		if _, err := maps.Create(t.Context(), maps.Key("a", obj.Name), obj, 0); err != nil {
			t.Fatal(err)
		}
	}
	s := &watchStream{&responder{exchange: &exchange{
		endpoint: &endpoint{Endpoint: &registry.Endpoint{Kind: maps.Kind(), Version: maps.Kind().HubVersion()}},
		api:      &API{},
	}}, &registry.Request{}}
	var sent strings.Builder
	s.follow(t.Context(), w, &objectEvents{format: maps.Format(corev1.SchemeGroupVersion, codec.JSON, cache.Whole)},
		outlet{send: func(b []byte) error {
			sent.Write(b)
			return nil
		}})
	if strings.Contains(sent.String(), "ERROR") {
		t.Errorf("sent: %s", sent.String())
	}
}

// begins counts how often a watch is said to have begun.
type begins chan struct{}

func (b begins) Signal() { b <- struct{}{} }
func (b begins) Wait()   {}

// TestWatchBegins: a watch takes its place among the requests that are served until its initial events are sent.
func TestWatchBegins(t *testing.T) {
	t.Run("empty", func(t *testing.T) { testWatchBegins(t, 0, 0) })
	t.Run("many", func(t *testing.T) { testWatchBegins(t, 1200, 2) }) // more than are sent at once
}

func testWatchBegins(t *testing.T, many, atLeast int) {
	maps := registrytest.ConfigMaps(t, memory.New(nil))
	ctx := t.Context()
	for i := range many {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("m%04d", i)}}
		if _, err := maps.Create(ctx, maps.Key("a", obj.Name), obj, 0); err != nil {
			t.Fatal(err)
		}
	}
	w, err := maps.Watch(ctx, cache.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	begun := make(begins, 10)
	s := &watchStream{&responder{exchange: &exchange{
		endpoint: &endpoint{Endpoint: &registry.Endpoint{Kind: maps.Kind(), Version: maps.Kind().HubVersion()}},
		api:      &API{},
	}}, &registry.Request{}}
	events := &objectEvents{format: maps.Format(corev1.SchemeGroupVersion, codec.JSON, cache.Whole)}
	batches := 0
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() {
		s.follow(flowcontrol.WithInitializationSignal(ctx, begun), w, events, outlet{send: func([]byte) error {
			if batches++; len(begun) > 0 {
				t.Error("the watch has begun before its initial events are sent")
			}
			return nil
		}})
	})
	<-begun
	if batches < atLeast {
		t.Errorf("%d batches", batches)
	}
}
