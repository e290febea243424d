package extendedresources

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// TestAdmit: each extended resource that a container asks for is tolerated once, whatever was tolerated before.
func TestAdmit(t *testing.T) {
	asks := func(names ...corev1.ResourceName) corev1.Container {
		requests := corev1.ResourceList{}
		for _, name := range names {
			requests[name] = resource.MustParse("1")
		}
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests}}
	}
	seconds := int64(3)
	gpu := corev1.Toleration{
		Key: "example.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
	}
	fpga, brief := gpu, gpu
	fpga.Key, brief.TolerationSeconds = "example.com/fpga", &seconds
	for name, test := range map[string]struct {
		spec        corev1.PodSpec
		resource    string
		subresource string
		want        []corev1.Toleration
	}{
		"none": {spec: corev1.PodSpec{Containers: []corev1.Container{asks("cpu", "kubernetes.io/x")}}},
		"of several containers": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{asks("example.com/gpu")},
				Containers:     []corev1.Container{asks("cpu"), asks("example.com/gpu", "example.com/fpga")},
			},
			want: []corev1.Toleration{fpga, gpu},
		},
		"one that differs in its time": {
			spec: corev1.PodSpec{
				Containers: []corev1.Container{asks("example.com/gpu")}, Tolerations: []corev1.Toleration{brief},
			},
			want: []corev1.Toleration{gpu},
		},
		"a subresource": {
			spec: corev1.PodSpec{Containers: []corev1.Container{asks("example.com/gpu")}}, subresource: "status",
		},
		"another resource": {
			spec: corev1.PodSpec{Containers: []corev1.Container{asks("example.com/gpu")}}, resource: "services",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod, at := &corev1.Pod{Spec: test.spec}, "pods"
			if test.resource != "" {
				at = test.resource
			}
			a := admission.NewAttributesRecord(pod, nil, schema.GroupVersionKind{}, "ns", "p",
				corev1.SchemeGroupVersion.WithResource(at), test.subresource, admission.Create, nil, false, nil)
			if err := New().Admit(t.Context(), a, nil); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(pod.Spec.Tolerations, test.want, func(a, b corev1.Toleration) bool {
				return a.Key == b.Key && a.Operator == b.Operator && a.Effect == b.Effect &&
					(a.TolerationSeconds == nil) == (b.TolerationSeconds == nil)
			}) {
				t.Errorf("tolerates %v, want %v", pod.Spec.Tolerations, test.want)
			}
		})
	}
}
