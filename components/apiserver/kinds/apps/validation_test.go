package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestNoSelector: as upstream, a missing selector is told together with what is wrong with the template.
func TestNoSelector(t *testing.T) {
	d := &appsv1.Deployment{}
	d.Spec.Template.Labels = map[string]string{"a": "b"}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	DefaultDeployment(d)
	var got []string
	for _, err := range (Rules{}).ValidateDeployment(d) {
		got = append(got, string(err.Type)+" "+err.Field)
	}
	want := []string{"FieldValueRequired spec.selector", "FieldValueInvalid spec.template.metadata.labels",
		"FieldValueRequired spec.template.spec.containers[0].image"}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
