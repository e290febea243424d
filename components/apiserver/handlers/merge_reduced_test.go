package handlers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
)

func TestApartLeavesWhatDiffers(t *testing.T) {
	a := trackedPod()
	a.UID, a.ResourceVersion = "u", "1"
	a.Spec.Containers = append(a.Spec.Containers, corev1.Container{Name: "other"})
	b := a.DeepCopy()
	b.Spec.Containers[1].Image = "i"
	b.Status.Phase = "Running"
	x, y := apart(a, b)
	old, next := x.(*corev1.Pod), y.(*corev1.Pod)
	if len(old.Spec.Containers) != 2 || len(next.Spec.Containers) != 2 || next.Status.Phase != "Running" || old.Status.Phase != "Pending" {
		t.Error("a difference is left out")
	}
	if old.Spec.Tolerations != nil || next.Labels != nil {
		t.Error("what is the same is not left out")
	}
	if old.UID != "u" || next.Name != "a" {
		t.Error("the identity is left out")
	}
	if a.Spec.Tolerations == nil || b.Labels == nil {
		t.Error("the objects themselves are changed")
	}
}

func TestApartOfTwoTypes(t *testing.T) {
	var a, b kinds.Object = &corev1.Pod{}, &corev1.Secret{}
	if x, y := apart(a, b); x != a || y != b {
		t.Error("objects of two types are compared")
	}
}
