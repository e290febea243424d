package bootstrap

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// TestNamespacesAreKept by a server that runs, within a minute.
func TestNamespacesAreKept(t *testing.T) {
	ctx, store, clk := t.Context(), &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	b := New(Config{Objects: store, NoLease: true, Clock: clk})
	if err := b.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	namespaces := corev1.Resource("namespaces")
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		if _, err := store.Get(ctx, namespaces, "", name); err != nil {
			t.Error(err)
		}
	}
	store.Remove(namespaces, "", "kube-node-lease")
	go func() { _ = b.Run(ctx, nil) }()
	eventually(t, func() bool {
		if clk.HasWaiters() {
			clk.Step(mendEvery)
		}
		_, err := store.Get(ctx, namespaces, "", "kube-node-lease")
		return err == nil
	})
}

// TestPriorityClasses: those that are there stay as they are, even with another value.
func TestPriorityClasses(t *testing.T) {
	ctx, store, clk := t.Context(), &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	resource := schedulingv1.Resource("priorityclasses")
	store.Put(resource, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-cluster-critical"},
		Value: 7, Description: "mine"})
	if err := New(Config{Objects: store, Clock: clk}).Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]schedulingv1.PriorityClass{
		"system-cluster-critical": {Value: 7, Description: "mine"},
		"system-node-critical": {Value: 2000001000,
			Description: "Used for system critical pods that must not be moved from their current node."},
	} {
		got, err := objects.As[*schedulingv1.PriorityClass](store.Get(ctx, resource, "", name))
		if err != nil || got.Value != want.Value || got.Description != want.Description {
			t.Errorf("%s is %+v, %v", name, got, err)
		}
	}
}

// TestTokenTrackingIsKept: an invalid date is repaired, and a deleted object is recreated, though not more often than
// every half hour.
func TestTokenTrackingIsKept(t *testing.T) {
	ctx, store, clk := t.Context(), &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	b, resource := New(Config{Objects: store, Clock: clk}), corev1.Resource("configmaps")
	since := func() string {
		t.Helper()
		if err := b.tracking.ensure(ctx); err != nil {
			t.Fatal(err)
		}
		m, err := objects.As[*corev1.ConfigMap](store.Get(ctx, resource, "kube-system", trackingName))
		if err != nil {
			return ""
		}
		return m.Data["since"]
	}
	if got := since(); got != "2023-11-14" {
		t.Errorf("since %q", got)
	}
	clk.Step(48 * time.Hour)
	if got := since(); got != "2023-11-14" {
		t.Errorf("two days later since %q", got)
	}
	for _, data := range []map[string]string{nil, {"since": "yesterday"}, {"since": "2023-14-11"}} {
		store.Put(resource, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: trackingName}, Data: data})
		if got := since(); got != "2023-11-16" {
			t.Errorf("instead of %v since %q", data, got)
		}
	}
	for _, want := range []string{"2023-11-16", "", "2023-11-16"} {
		store.Remove(resource, "kube-system", trackingName)
		if got := since(); got != want {
			t.Errorf("after it was deleted since %q, want %q", got, want)
		}
		if want == "" {
			clk.Step(trackingPause)
		}
	}
}
