package crd

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// TestWhatBecomesOfObjects is what the status of a definition that is being deleted tells of the objects, and whether the
// definition goes.
func TestWhatBecomesOfObjects(t *testing.T) {
	held := &unstructured.Unstructured{Object: map[string]any{}}
	held.SetName("held")
	held.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1e9, 0)})
	for _, c := range []struct {
		reason, message string
		shadows, unused bool
		objects         []kinds.Object
		fault           error
		goes            bool
	}{
		{reason: "InstanceDeletionCompleted", message: "removed all instances", goes: true},
		{reason: "InstanceDeletionCheck", message: "could not confirm zero CustomResources remaining: context deadline exceeded", objects: []kinds.Object{held}},
		{reason: "InstanceDeletionFailed", message: "could not issue all deletes: no list", fault: errors.New("no list")},
		{reason: "OverlappingBuiltInResource", message: "instances overlap with built-in resources in storage", shadows: true, objects: []kinds.Object{held}, goes: true},
		{reason: "NeverEstablished", message: "resource was never established", unused: true, objects: []kinds.Object{held}, goes: true},
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
		m := New(Config{
			Objects: store, Clock: clock, Shadows: func(*kinds.Kind) bool { return c.shadows },
			List: func(context.Context, *kinds.Kind) ([]kinds.Object, error) { return c.objects, c.fault },
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
