package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// TestRollback: the revision to go back to is a number, written in one way; 0 is one, nothing is none.
func TestRollback(t *testing.T) {
	for text, want := range map[string]string{"7": "7", "07": "7", "+7": "7", "-1": "-1", "0": "0"} {
		d := &appsv1.Deployment{}
		given := map[string]string{appsv1.DeprecatedRollbackTo: text}
		d.Annotations = given
		DefaultDeployment(d)
		if got := d.Annotations[appsv1.DeprecatedRollbackTo]; got != want || CheckDeployment(d) != nil {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if given[appsv1.DeprecatedRollbackTo] != text {
			t.Errorf("%q was changed, which others may have, too", text)
		}
	}
	d := &appsv1.Deployment{}
	d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "", "a": "b"}
	if DefaultDeployment(d); len(d.Annotations) != 1 {
		t.Errorf("nothing: %v", d.Annotations)
	}
	d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "x"}
	if err := CheckDeployment(d); err == nil {
		t.Error("what is no number is taken")
	}
	old := d.DeepCopy()
	old.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "5"}
	if KeepRollback(d, old); d.Annotations[appsv1.DeprecatedRollbackTo] != "5" {
		t.Errorf("kept %v", d.Annotations)
	}
	if KeepRollback(d, &appsv1.Deployment{}); len(d.Annotations) != 0 {
		t.Errorf("kept %v of nothing", d.Annotations)
	}
}
