package apps

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestSetWarnings: claims for the pods of a set are looked at like claims, where upstream says that they are.
func TestSetWarnings(t *testing.T) {
	set := &appsv1.StatefulSet{}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{Spec: corev1.PersistentVolumeClaimSpec{
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{"storage": resource.MustParse("1500m")}},
	}}}
	warnings := statefulSets(api.Deps{}).Strategy.Warnings
	const text = `.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`
	if got := warnings(t.Context(), set, nil); !slices.Equal(got, []string{"spec.volumeClaimTemplates[0]" + text}) {
		t.Errorf("of a new one: %q", got)
	}
	if got := warnings(t.Context(), set, set); !slices.Equal(got,
		[]string{"spec.volumeClaimTemplates[0].Spec" + text}) {
		t.Errorf("of an update: %q", got)
	}
}
