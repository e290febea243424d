package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts reads name, quantity, name, quantity ...
func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// TestDefaultPodResources: what a pod leaves out comes from its containers, of huge pages from their limits.
func TestDefaultPodResources(t *testing.T) {
	for name, c := range map[string]struct{ container, pod, want corev1.ResourceRequirements }{
		"huge pages": {
			corev1.ResourceRequirements{Limits: amounts("cpu", "1", "hugepages-2Mi", "4Mi")},
			corev1.ResourceRequirements{Limits: amounts("cpu", "2")},
			corev1.ResourceRequirements{Limits: amounts("cpu", "2", "hugepages-2Mi", "4Mi"),
				Requests: amounts("cpu", "1", "hugepages-2Mi", "4Mi")},
		},
		"huge pages that aren't what is asked for": {
			corev1.ResourceRequirements{Limits: amounts("hugepages-2Mi", "2Mi"),
				Requests: amounts("hugepages-2Mi", "4Mi")},
			corev1.ResourceRequirements{Limits: amounts("cpu", "2")},
			corev1.ResourceRequirements{Limits: amounts("cpu", "2", "hugepages-2Mi", "2Mi"),
				Requests: amounts("cpu", "2", "hugepages-2Mi", "2Mi")},
		},
		"huge pages asked for by the pod": {
			corev1.ResourceRequirements{Limits: amounts("hugepages-2Mi", "2Mi")},
			corev1.ResourceRequirements{Requests: amounts("hugepages-2Mi", "2Mi")},
			corev1.ResourceRequirements{Requests: amounts("hugepages-2Mi", "2Mi")},
		},
		"nothing": {corev1.ResourceRequirements{Limits: amounts("cpu", "1")}, corev1.ResourceRequirements{},
			corev1.ResourceRequirements{}},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Resources: &c.pod,
			Containers: []corev1.Container{{Name: "c", Resources: c.container}}}}
		if DefaultPod(pod); !apiequality.Semantic.DeepEqual(*pod.Spec.Resources, c.want) {
			t.Errorf("%s: got %v, want %v", name, *pod.Spec.Resources, c.want)
		}
	}
}
