package handlers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// TestRepeated: what an update is tried again with is what it was tried with at first, though that was changed meanwhile.
func TestRepeated(t *testing.T) {
	read := func() *corev1.Pod {
		owner := metav1.OwnerReference{UID: "1"}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", OwnerReferences: []metav1.OwnerReference{owner, owner}}}
	}
	c := &call{ctx: t.Context(), namespace: "a", name: "x"}
	wanted := read()
	if err := c.sameName(wanted); err != nil {
		t.Fatal(err)
	}
	c.dropDuplicateOwners(wanted, duplicateOwners)
	times := 0
	take := c.repeated(wanted, func() (kinds.Object, error) { times++; return read(), nil })
	for range 3 {
		obj, err := take()
		if err != nil {
			t.Fatal(err)
		}
		if obj.GetNamespace() != "a" || obj.GetName() != "x" || len(obj.GetOwnerReferences()) != 1 {
			t.Errorf("got %v", obj)
		}
		obj.SetNamespace("changed")
		obj.SetOwnerReferences(nil)
	}
	if times != 2 {
		t.Errorf("the body was read %d times more", times)
	}
}
