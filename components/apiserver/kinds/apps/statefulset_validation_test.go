package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestStatefulSetThatBecameInvalid: a set that was stored when less was refused can be changed; a valid one doesn't
// become invalid.
func TestStatefulSetThatBecameInvalid(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, after func(s *appsv1.StatefulSetSpec)
		want          []string
	}{
		{"valid", nil, func(s *appsv1.StatefulSetSpec) { s.Template.Spec.Containers[0].Image = "" },
			[]string{"spec.template.spec.containers[0].image"}},
		{"scaled", func(s *appsv1.StatefulSetSpec) { s.Template.Spec.Containers[0].Name = "A" },
			func(s *appsv1.StatefulSetSpec) { s.Replicas = ptr.To(int32(0)) }, nil},
		{"scaled, privileged as was allowed once", func(s *appsv1.StatefulSetSpec) {
			s.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		}, func(s *appsv1.StatefulSetSpec) { s.Replicas = ptr.To(int32(0)) }, nil},
		{"privileged", nil, func(s *appsv1.StatefulSetSpec) {
			s.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		}, []string{"spec.template.spec.containers[0].securityContext.privileged"}},
		{"worse", func(s *appsv1.StatefulSetSpec) { s.Replicas = ptr.To(int32(-1)) },
			func(s *appsv1.StatefulSetSpec) { s.Replicas, s.Template.Spec.Containers = nil, nil }, nil},
		{"the rest is looked at", func(s *appsv1.StatefulSetSpec) { s.Template.Spec.Containers[0].Name = "A" },
			func(s *appsv1.StatefulSetSpec) {
				s.Template.Labels = map[string]string{"a": "c"}
				s.Template.Annotations = map[string]string{corev1.PodDeletionCost: "x"}
				s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			}, []string{"spec.template.metadata.labels",
				"spec.template.annotations[controller.kubernetes.io/pod-deletion-cost]",
				"spec.template.spec.restartPolicy"}},
		{"of the claims nothing is asked", func(s *appsv1.StatefulSetSpec) {
			s.ServiceName = "A_b"
			s.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "v"}}}
		}, func(s *appsv1.StatefulSetSpec) { s.Template.Spec.Containers[0].Image = "" },
			[]string{"spec.template.spec.containers[0].image"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := &appsv1.StatefulSet{
				Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
			old.Spec.Template.Labels = map[string]string{"a": "b"}
			old.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
			DefaultStatefulSet(old)
			if tc.before != nil {
				tc.before(&old.Spec)
			}
			set := old.DeepCopy()
			tc.after(&set.Spec)
			errs := Rules{}.ValidateStatefulSetUpdate(set, old)
			if len(errs) != len(tc.want) {
				t.Fatalf("got %q, want %q", errs, tc.want)
			}
			for i, err := range errs {
				if err.Field != tc.want[i] {
					t.Errorf("got %q, want %q", err, tc.want[i])
				}
			}
		})
	}
}
