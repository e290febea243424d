package equality

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "x"},
			CreationTimestamp: metav1.Unix(1, 0)},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "main", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("10m")}}}},
			NodeSelector: map[string]string{"n": "1"},
		},
	}
}

func TestIdentical(t *testing.T) {
	one := int64(1)
	quantity := func(s string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(s)} }
	for _, c := range []struct {
		name           string
		change         func(*corev1.Pod)
		same, semantic bool
	}{
		{"nothing", func(*corev1.Pod) {}, true, true},
		{"another pointer to the same", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &one }, true,
			true},
		{"the same quantity", func(p *corev1.Pod) { p.Spec.Overhead = quantity("1000m") }, true, true},
		{"the same quantity in another format", func(p *corev1.Pod) { p.Spec.Overhead = quantity("1e0") }, false, true},
		{"another quantity", func(p *corev1.Pod) { p.Spec.Overhead = quantity("2") }, false, false},
		{"another key", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"m": "1"} }, false, false},
		{"another label", func(p *corev1.Pod) { p.Labels["app"] = "y" }, false, false},
		{"other bytes", func(p *corev1.Pod) { p.ManagedFields[0].FieldsV1.SetRawString(`{"f:b":{}}`) }, false, false},
		{"nothing for empty", func(p *corev1.Pod) { p.Spec.Volumes = nil }, false, true},
	} {
		a := pod()
		a.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}}
		a.Spec.Overhead, a.Spec.Volumes = quantity("1"), []corev1.Volume{}
		a.Spec.TerminationGracePeriodSeconds = new(int64)
		*a.Spec.TerminationGracePeriodSeconds = 1
		b := a.DeepCopy()
		c.change(b)
		if got := Identical(reflect.ValueOf(a), reflect.ValueOf(b)); got != c.same {
			t.Errorf("%s: identical: %t", c.name, got)
		}
		if got := Semantic(a, b); got != c.semantic {
			t.Errorf("%s: semantically equal: %t", c.name, got)
		}
	}
}
