package kinds_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

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

// TestMetadataAmongChanges: what must not change is told between the faults of a change of the metadata and those of the
// metadata itself, and the faults of the values come last.
func TestMetadataAmongChanges(t *testing.T) {
	meta := kinds.MetaErrors{
		Change: field.ErrorList{field.Invalid(field.NewPath("metadata", "change"), "", "")},
		Object: field.ErrorList{field.Invalid(field.NewPath("metadata", "object"), "", "")},
	}
	old := map[string]kinds.Object{
		"ConfigMap": &corev1.ConfigMap{Immutable: ptr.To(true)},
		"Secret":    &corev1.Secret{Immutable: ptr.To(true)},
	}
	changed := map[string]kinds.Object{
		"ConfigMap": &corev1.ConfigMap{BinaryData: map[string][]byte{"/": nil}},
		"Secret":    &corev1.Secret{Data: map[string][]byte{"/": nil}},
	}
	want := map[string][]string{
		"ConfigMap": {"metadata.change", "immutable", "binaryData", "metadata.object", "binaryData[/]"},
		"Secret":    {"metadata.change", "immutable", "data", "metadata.object", "data[/]"},
	}
	for _, kind := range kinds.Table(kinds.Deps{}) {
		if old[kind.Name] == nil {
			continue
		}
		if kind.Strategy.ValidateAmong == nil {
			t.Errorf("%s: the metadata is checked apart", kind.Name)
			continue
		}
		var got []string
		for _, err := range kind.Strategy.ValidateAmong(t.Context(), changed[kind.Name], old[kind.Name], meta) {
			got = append(got, err.Field)
		}
		if !slices.Equal(got, want[kind.Name]) {
			t.Errorf("%s: got %q, want %q", kind.Name, got, want[kind.Name])
		}
	}
}
