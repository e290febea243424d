package crd

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// TestWhatBecomesOfObjects is what the status of a definition that is being deleted tells of the objects, and whether
// the definition goes.
func TestWhatBecomesOfObjects(t *testing.T) {
	held := &unstructured.Unstructured{Object: map[string]any{}}
	held.SetName("held")
	held.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1e9, 0)})
	of := func(namespace string) api.Object {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetNamespace(namespace)
		return obj
	}
	for _, c := range []struct {
		reason, message string
		shadows, unused bool
		objects         []api.Object
		lists           int // before the fault
		fault           error
		goes            bool
	}{
		{reason: "InstanceDeletionCompleted", message: "removed all instances", goes: true},
		{reason: "InstanceDeletionCheck",
			message: "could not confirm zero CustomResources remaining: context deadline exceeded",
			objects: []api.Object{held}},
		{reason: "InstanceDeletionFailed", message: "could not list instances: no list", lists: 0,
			fault: errors.New("no list")},
		{reason: "InstanceDeletionCheck", message: "could not confirm zero CustomResources remaining: no list",
			objects: []api.Object{held}, lists: 1, fault: errors.New("no list")},
		{reason: "InstanceDeletionFailed", message: "could not issue all deletes: [a stays, b stays]",
			objects: []api.Object{of("a"), of("a"), of("b")}},
		{reason: "OverlappingBuiltInResource", message: "instances overlap with built-in resources in storage",
			shadows: true, objects: []api.Object{held}, goes: true},
		{reason: "NeverEstablished", message: "resource was never established", unused: true,
			objects: []api.Object{held}, goes: true},
	} {
		crd := named(0, "foos", "Foo")
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}
		crd.Finalizers = []string{apiextensionsv1.CustomResourceCleanupFinalizer}
		if !c.unused {
			setEstablished(crd, apiextensionsv1.ConditionTrue, "InitialNamesAccepted", namesAccepted)
		}
		r, err := newResource(crd, crd.Spec.Names, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		store, clock := &objectstest.Store{}, clocktesting.NewFakeClock(time.Unix(1e9, 0))
		store.Put(group, crd)
		lists := 0
		m := New(Config{
			Objects: staying{store}, Clock: clock, Shadows: func(*api.Kind) bool { return c.shadows },
			List: func(context.Context, *api.Kind) ([]api.Object, error) {
				if lists++; lists > c.lists {
					return c.objects, c.fault
				}
				return c.objects, nil
			},
		})
		done := make(chan error, 1)
		go func() { done <- m.cleanUp(t.Context(), crd, r.kind) }()
		for over := false; !over; {
			select {
			case err = <-done:
				over = true
			default:
				clock.Step(time.Second)
			}
		}
		obj, _ := store.Get(t.Context(), group, "", crd.Name)
		now := obj.(*definition)
		got := apihelpers.FindCRDCondition(now, apiextensionsv1.Terminating)
		stays := apihelpers.CRDHasFinalizer(now, apiextensionsv1.CustomResourceCleanupFinalizer)
		if got.Reason != c.reason || got.Message != c.message || stays == c.goes || (err == nil) != c.goes {
			t.Errorf("%s: %s: %s; stays: %t, %v", c.reason, got.Reason, got.Message, stays, err)
		}
		if (got.Status == apiextensionsv1.ConditionTrue) == c.goes {
			t.Errorf("%s: terminating: %s", c.reason, got.Status)
		}
	}
}

// staying is a store that deletes nothing.
type staying struct{ objects.Store }

func (staying) Delete(_ context.Context, _ schema.GroupResource, namespace, _ string, _ types.UID) error {
	return errors.New(namespace + " stays")
}

// TestCleaningIsTriedAgain ever later, whatever its own notes in the status make happen, but at once when the
// definition changes.
func TestCleaningIsTriedAgain(t *testing.T) {
	crd := named(0, "foos", "Foo")
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}
	crd.Finalizers = []string{apiextensionsv1.CustomResourceCleanupFinalizer}
	crd.UID, crd.Generation, crd.DeletionTimestamp = "u", 1, &metav1.Time{Time: time.Unix(1e9, 0)}
	setEstablished(crd, apiextensionsv1.ConditionTrue, "InitialNamesAccepted", namesAccepted)
	r, err := newResource(crd, crd.Spec.Names, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, clock := &objectstest.Store{}, clocktesting.NewFakeClock(time.Unix(1e9, 0))
	store.Put(group, crd)
	ctx, cancel := context.WithCancel(t.Context())
	m := New(Config{
		Objects: store, Clock: clock, Shadows: func(*api.Kind) bool { return false },
		List: func(context.Context, *api.Kind) ([]api.Object, error) { return nil, errors.New("no list") },
	})
	m.resources[crd.UID] = &entry{resource: r}
	defer m.work.Wait()
	defer cancel()
	runs := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.cleanAll(ctx, []*definition{crd})
		return m.cleanings[crd.UID].running
	}
	failed := func() {
		for !clock.HasWaiters() { // for the next try
			runtime.Gosched()
		}
	}
	for _, pause := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
		if !runs() {
			t.Fatalf("before a pause of %s nothing is tried", pause)
		}
		failed()
		clock.Step(pause - time.Millisecond)
		if runs() {
			t.Fatalf("there is no pause of %s", pause)
		}
		clock.Step(time.Millisecond)
		<-m.loop.Woken()
	}
	if !runs() {
		t.Fatal("nothing is tried after all pauses")
	}
	failed()
	crd = crd.DeepCopy()
	crd.Generation++
	if !runs() {
		t.Error("nothing is tried with another definition")
	}
}

// TestPausesEnd: they don't grow for ever.
func TestPausesEnd(t *testing.T) {
	c := &cleaning{}
	for range 100 {
		c.failed(time.Time{})
	}
	if c.retry != maxRetry {
		t.Errorf("after many failures: %s", c.retry)
	}
}
