package kinds_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// TestMetadataAlone has no annotation that stands for a field; the object keeps it.
func TestMetadataAlone(t *testing.T) {
	for _, kind := range kinds.Table(kinds.Deps{}) {
		if kind.Name != "DaemonSet" {
			continue
		}
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "1", "b": "c"}}}
		if got := kind.Metadata(set); got.Name != "a" || len(got.Annotations) != 1 || got.Annotations["b"] != "c" || len(set.Annotations) != 2 {
			t.Errorf("%v of %v", got, set)
		}
	}
}
