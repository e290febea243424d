package rootca

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	made := plan("ns", "ca", nil)
	if made == nil || made.Name != configMapName || made.Data[dataKey] != "ca" ||
		made.Annotations[descriptionKey] == "" {
		t.Fatalf("%+v", made)
	}
	if again := plan("ns", "ca", made); again != nil {
		t.Errorf("writes again: %+v", again)
	}
	described := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{descriptionKey: "mine"}},
		Data: map[string]string{"other": "x"}}
	changed := plan("ns", "ca", described)
	if changed == nil || len(changed.Data) != 1 || changed.Annotations[descriptionKey] != description {
		t.Errorf("%+v", changed)
	}
	if described.Data["other"] != "x" {
		t.Error("the shared object was changed")
	}
}
