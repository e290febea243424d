package registry

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestCreate: a new object gets what the system owns of its metadata, a name, its manager, and is stored; no HTTP is
// needed for that.
func TestCreate(t *testing.T) {
	maps := registrytest.ConfigMaps(t, memory.New(nil))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := New(Config{
		Resources: []Resource{{Kind: maps.Kind(), Cache: maps}}, Scheme: codec.NewScheme(),
		Clock: testclock.NewFakePassiveClock(now.Add(time.Millisecond)),
	})
	ep := g.Endpoints()[Key{GroupVersion: corev1.SchemeGroupVersion, Resource: "configmaps"}]
	create := func(meta metav1.ObjectMeta, dryRun ...string) (api.Object, error) {
		w := ep.Writer(&Request{Verb: "create", Namespace: "a"})
		obj := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": "v"}}
		e, err := w.Create(t.Context(), obj, &metav1.CreateOptions{DryRun: dryRun}, "tester")
		if err != nil {
			return nil, err
		}
		return e.Object, nil
	}
	if _, err := create(metav1.ObjectMeta{Name: "x"}, metav1.DryRunAll); err != nil {
		t.Fatal(err)
	}
	obj, err := create(metav1.ObjectMeta{Name: "x", UID: "made-up", DeletionTimestamp: &metav1.Time{Time: now}})
	if err != nil {
		t.Fatal(err)
	}
	if obj.GetNamespace() != "a" || obj.GetUID() == "" || obj.GetUID() == "made-up" ||
		obj.GetDeletionTimestamp() != nil ||
		!obj.GetCreationTimestamp().Time.Equal(now) {
		t.Errorf("stored %+v", obj)
	}
	if entries := obj.GetManagedFields(); len(entries) != 1 || entries[0].Manager != "tester" {
		t.Errorf("managed by %+v", entries)
	}
	if _, err := create(metav1.ObjectMeta{Name: "x"}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created again: %v", err)
	}
	if _, err := create(metav1.ObjectMeta{Name: "x", Namespace: "b"}); !apierrors.IsBadRequest(err) {
		t.Errorf("created in another namespace: %v", err)
	}
	obj, err = create(metav1.ObjectMeta{GenerateName: "y-"})
	if err != nil || !strings.HasPrefix(obj.GetName(), "y-") || len(obj.GetName()) != len("y-")+suffixLength {
		t.Errorf("generated %v, %v", obj, err)
	}
}
