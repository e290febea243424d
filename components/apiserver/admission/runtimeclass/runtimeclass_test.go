package runtimeclass

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// ask passes a pod of a class through both halves of the plug-in.
func ask(class *nodev1.RuntimeClass, spec corev1.PodSpec) (*corev1.Pod, error) {
	store := &objectstest.Store{}
	class.Name, spec.RuntimeClassName = "vm", ptr.To("vm")
	store.Put(nodev1.Resource("runtimeclasses"), class)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: spec}
	a := admission.NewAttributesRecord(pod, nil, schema.GroupVersionKind{}, "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
	p := New(store)
	if err := p.Admit(context.Background(), a, nil); err != nil {
		return pod, err
	}
	return pod, p.Validate(context.Background(), a, nil)
}

// TestTolerations: what another toleration covers is left out, be it the pod's own.
func TestTolerations(t *testing.T) {
	exists, equal := corev1.TolerationOpExists, corev1.TolerationOpEqual
	for name, c := range map[string]struct{ own, class, want []corev1.Toleration }{
		"both": {[]corev1.Toleration{{Key: "a", Operator: exists}},
			[]corev1.Toleration{{Key: "b", Operator: exists}},
			[]corev1.Toleration{{Key: "a", Operator: exists}, {Key: "b", Operator: exists}}},
		"the same": {[]corev1.Toleration{{Key: "a", Operator: exists}},
			[]corev1.Toleration{{Key: "a", Operator: exists}}, []corev1.Toleration{{Key: "a", Operator: exists}}},
		"own covers": {[]corev1.Toleration{{Operator: exists}}, []corev1.Toleration{{Key: "a", Operator: exists}},
			[]corev1.Toleration{{Operator: exists}}},
		"class's covers": {[]corev1.Toleration{{Key: "a", Operator: equal, Value: "x"}},
			[]corev1.Toleration{{Key: "a", Operator: exists}}, []corev1.Toleration{{Key: "a", Operator: exists}}},
		"own among itself": {[]corev1.Toleration{{Key: "a", Operator: equal, Value: "x"}, {Key: "a", Operator: exists}},
			nil, []corev1.Toleration{{Key: "a", Operator: exists}}},
	} {
		pod, err := ask(&nodev1.RuntimeClass{Scheduling: &nodev1.Scheduling{Tolerations: c.class}},
			corev1.PodSpec{Tolerations: c.own})
		same := err == nil && len(pod.Spec.Tolerations) == len(c.want)
		for i := range c.want {
			same = same && pod.Spec.Tolerations[i] == c.want[i]
		}
		if !same {
			t.Errorf("%s: got %v, want %v, error %v", name, pod.Spec.Tolerations, c.want, err)
		}
	}
}

func TestOverhead(t *testing.T) {
	cpu := func(n string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(n)} }
	costs := &nodev1.RuntimeClass{Overhead: &nodev1.Overhead{PodFixed: cpu("1")}}
	for name, c := range map[string]struct {
		class *nodev1.RuntimeClass
		own   corev1.ResourceList
		want  string
	}{
		"none":        {costs, nil, ""},
		"empty":       {costs, corev1.ResourceList{}, ""},
		"the class's": {costs, cpu("1000m"), ""},
		"another": {costs, cpu("2"),
			"pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"},
		"class tells not": {&nodev1.RuntimeClass{}, cpu("1"),
			"pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"},
	} {
		pod, err := ask(c.class, corev1.PodSpec{Overhead: c.own})
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err == nil && pod.Spec.Overhead.Cpu().Value() != 1 {
			t.Errorf("%s: overhead %v", name, pod.Spec.Overhead)
		}
	}
}
