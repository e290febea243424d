// Package runnertest runs controllers against an API server that is only pretended: client-go's fake clientset, which
// knows neither validation nor conflicts, but tells watchers.
package runnertest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/internal/alike"
	"quintet.dev/quintet/internal/watchtest"
)

// NewClient returns a clientset that holds objects, and gives new ones the names and UIDs they lack.
func NewClient(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	watchtest.Copy(client)
	var serial atomic.Int64
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		if object, err := meta.Accessor(create.GetObject()); err == nil {
			n := serial.Add(1)
			if object.GetName() == "" {
				object.SetName(fmt.Sprint(object.GetGenerateName(), n))
			}
			if object.GetUID() == "" {
				object.SetUID(types.UID(fmt.Sprint("uid-", n)))
			}
		}
		return false, nil, nil
	})
	client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return updateStatus(client.Tracker(), action)
	})
	return client
}

// updateStatus lets an update of a status change nothing but this and annotations, whatever came between it and what it
// was made of.
func updateStatus(held clienttesting.ObjectTracker, action clienttesting.Action) (bool, runtime.Object, error) {
	update, ok := action.(clienttesting.UpdateAction)
	if !ok || update.GetSubresource() != "status" {
		return false, nil, nil
	}
	given, err := meta.Accessor(update.GetObject())
	if err != nil {
		return false, nil, nil
	}
	current, err := held.Get(action.GetResource(), action.GetNamespace(), given.GetName())
	if err != nil {
		return true, nil, err
	}
	next := current.DeepCopyObject()
	status := reflect.ValueOf(next).Elem().FieldByName("Status")
	if !status.IsValid() {
		return false, nil, nil
	}
	status.Set(reflect.ValueOf(update.GetObject()).Elem().FieldByName("Status"))
	if changed, err := meta.Accessor(next); err == nil {
		changed.SetAnnotations(given.GetAnnotations())
	}
	return true, next, held.Update(action.GetResource(), next, action.GetNamespace())
}

// Start runs the controllers that makers make until the test ends, and waits for their end. Events go to the
// returned recorder, which keeps up to 1000.
func Start(t *testing.T, client *fake.Clientset, c clock.WithTicker,
	makers ...func(runner.Env) (runner.Controller, error)) *record.FakeRecorder {
	t.Helper()
	events := record.NewFakeRecorder(1000)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(new(alike.Pool).Transform))
	ctx, cancel := context.WithCancel(context.Background())
	var ended []chan struct{}
	for _, maker := range makers {
		controller, err := maker(runner.Env{Client: client, Informers: factory, Events: events, Clock: c, Workers: 2})
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		done := make(chan struct{})
		ended = append(ended, done)
		go func() {
			defer close(done)
			_ = controller.Run(ctx)
		}()
	}
	factory.StartWithContext(ctx)
	t.Cleanup(func() {
		cancel()
		for _, done := range ended {
			<-done
		}
		factory.Shutdown()
	})
	factory.WaitForCacheSync(ctx.Done())
	return events
}

// Eventually waits until ok tells true, and fails the test with what it says if that takes too long.
func Eventually(t *testing.T, ok func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		done, state := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never came to pass; last seen: %s", state)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Saw waits for an event that contains text.
func Saw(t *testing.T, events *record.FakeRecorder, text string) {
	t.Helper()
	seen := []string{}
	for {
		select {
		case event := <-events.Events:
			if strings.Contains(event, text) {
				return
			}
			seen = append(seen, event)
		case <-time.After(time.Minute):
			t.Fatalf("no event with %q, only %q", text, seen)
		}
	}
}
