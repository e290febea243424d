package pods

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCapQuantities(t *testing.T) {
	for text, want := range map[string]string{
		"1": "1", "100m": "100m", "8Ei": "9e15", "9e15": "9e15", "1e999999999": "9e15", "1e-9": "1n",
		"123456789012345678901234567890123456789": "9e15",
	} {
		quantity := resource.MustParse(text)
		pod := &v1.Pod{Spec: v1.PodSpec{
			Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": quantity}}}},
			Volumes: []v1.Volume{
				{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &quantity}}},
			},
		}}
		got := capQuantities(pod)
		request, wanted := got.Spec.Containers[0].Resources.Requests["cpu"], resource.MustParse(want)
		if tooLarge(request) || request.Cmp(wanted) != 0 || got.Spec.Volumes[0].EmptyDir.SizeLimit.Cmp(wanted) != 0 {
			t.Errorf("%s became %s, want %s", text, request.String(), want)
		}
		if before := pod.Spec.Containers[0].Resources.Requests["cpu"]; before.String() != quantity.String() {
			t.Errorf("the pod itself was changed from %s to %s", quantity.String(), before.String())
		}
	}
}
