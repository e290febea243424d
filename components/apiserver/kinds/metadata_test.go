package kinds_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestMetadataAlone has no annotation that stands for a field; the object keeps it.
func TestMetadataAlone(t *testing.T) {
	for _, kind := range kinds.Table(api.Deps{}) {
		if kind.Name != "DaemonSet" {
			continue
		}
		set := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "a",
				Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "1", "b": "c"}}}
		if got := kind.Metadata(set); got.Name != "a" || len(got.Annotations) != 1 || got.Annotations["b"] != "c" ||
			len(set.Annotations) != 2 {
			t.Errorf("%v of %v", got, set)
		}
	}
}

// TestMetadataAmongChanges: upstream tells faults of the metadata, of the change and of the object, amid those of the
// other fields, and not in the same order for all kinds.
func TestMetadataAmongChanges(t *testing.T) {
	meta := api.MetaErrors{
		Change: field.ErrorList{field.Invalid(field.NewPath("metadata", "change"), "", "")},
		Object: field.ErrorList{field.Invalid(field.NewPath("metadata", "object"), "", "")},
	}
	of := func(group, resource string) migrationv1beta1.StorageVersionMigrationSpec {
		return migrationv1beta1.StorageVersionMigrationSpec{
			Resource: metav1.GroupResource{Group: group, Resource: resource}}
	}
	for _, c := range []struct {
		kind     string
		new, old api.Object
		want     []string
	}{
		{
			"ConfigMap", &corev1.ConfigMap{BinaryData: map[string][]byte{"/": nil}},
			&corev1.ConfigMap{Immutable: ptr.To(true)},
			[]string{"metadata.change", "immutable", "binaryData", "metadata.object", "binaryData[/]"},
		},
		{
			"Secret", &corev1.Secret{Data: map[string][]byte{"/": nil}}, &corev1.Secret{Immutable: ptr.To(true)},
			[]string{"metadata.change", "immutable", "data", "metadata.object", "data[/]"},
		},
		{
			"StorageVersionMigration",
			&migrationv1beta1.StorageVersionMigration{Spec: of("A", "pods")},
			&migrationv1beta1.StorageVersionMigration{Spec: of("", "pods")},
			[]string{"metadata.object", "spec.resource.group", "metadata.change", "spec"},
		},
	} {
		strategy := kindNamed(t, c.kind).Strategy
		if strategy.ValidateAmong == nil {
			t.Errorf("%s: the metadata is checked apart", c.kind)
			continue
		}
		var got []string
		for _, err := range strategy.ValidateAmong(t.Context(), c.new, c.old, meta) {
			got = append(got, err.Field)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.kind, got, c.want)
		}
	}
}

// TestMetadataOfTheLibrary: what a library looks at is not looked at again.
func TestMetadataOfTheLibrary(t *testing.T) {
	kind := kindNamed(t, "APIService")
	if kind.Strategy.Meta != api.MetaNothing || kind.Subresource("status").Strategy.Meta != api.MetaNothing {
		t.Error("changes of metadata are told of twice")
	}
	old := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.a.b", ResourceVersion: "1"}}
	changed := old.DeepCopy()
	changed.DeletionGracePeriodSeconds = ptr.To[int64](1)
	errs := kind.Subresource("status").Strategy.ValidateUpdate(t.Context(), changed, old)
	if len(errs) != 1 || errs[0].Field != "metadata.deletionGracePeriodSeconds" {
		t.Errorf("got %v", errs)
	}
}

func kindNamed(t *testing.T, name string) *api.Kind {
	for _, kind := range kinds.Table(api.Deps{}) {
		if kind.Name == name {
			return kind
		}
	}
	t.Fatalf("no %s", name)
	return nil
}
