package cache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFieldSetsAreShared: equal sets are one, and the object that a list of managed fields came from keeps its own.
func TestFieldSetsAreShared(t *testing.T) {
	made := func(sets ...string) *corev1.Pod {
		p := &corev1.Pod{}
		for _, s := range sets {
			p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{Manager: s, FieldsV1: metav1.NewFieldsV1(s)})
		}
		return p
	}
	var f fieldSets
	a, b := made(`{"f:a":{}}`), made(`{"f:b":{}}`, `{"f:a":{}}`)
	own := b.ManagedFields
	before := own[1].FieldsV1
	f.share(a)
	f.share(b)
	if b.ManagedFields[1].FieldsV1 != a.ManagedFields[0].FieldsV1 {
		t.Error("equal sets are not shared")
	}
	if b.ManagedFields[0].FieldsV1 != own[0].FieldsV1 || b.ManagedFields[1].Manager != `{"f:a":{}}` {
		t.Error("what was not to be shared has changed")
	}
	if own[1].FieldsV1 != before {
		t.Error("the list of managed fields was changed in place")
	}
	f.share(made())
	f.share(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}})
}
