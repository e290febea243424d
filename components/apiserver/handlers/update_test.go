package handlers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
)

// TestRepeated: what an update is tried again with is what it was tried with at first, though that was changed
// meanwhile.
func TestRepeated(t *testing.T) {
	read := func() *corev1.Pod {
		owner := metav1.OwnerReference{UID: "1"}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x",
			OwnerReferences: []metav1.OwnerReference{owner, owner}}}
	}
	c := &call{exchange: exchange{ctx: t.Context()}, Request: registry.Request{Namespace: "a", Name: "x"}}
	wanted := read()
	if err := c.SameName(wanted); err != nil {
		t.Fatal(err)
	}
	registry.DropDuplicateOwners(c.ctx, wanted)
	times := 0
	take := c.repeated(wanted, func() (api.Object, error) { times++; return read(), nil })
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
