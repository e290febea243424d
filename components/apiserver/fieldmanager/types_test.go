package fieldmanager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/fieldmanager/generated"
	"quintet.dev/quintet/components/apiserver/openapi"
)

// TestTypesAreTheLibrarys fails when client-go, or a schema, is another than that from which the types were made: run
// `make generate`.
func TestTypesAreTheLibrarys(t *testing.T) {
	some := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	typed, err := applyconfigurations.NewTypeConverter(codec.NewScheme()).ObjectToTyped(some)
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := openapi.Schemas(openapi.Definition, openapi.APIService, openapi.TokenRequest, openapi.Scale,
		openapi.Binding, openapi.TokenReview, openapi.SelfReview,
		openapi.AccessReview, openapi.LocalReview, openapi.OwnReview, openapi.RulesReview)
	if err != nil {
		t.Fatal(err)
	}
	described, err := schemaconv.ToSchemaFromOpenAPI(schemas, false)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]schema.TypeDef{}
	for _, types := range [][]schema.TypeDef{described.Types, typed.Schema().Types} {
		for _, of := range types {
			want[of.Name] = of
		}
	}
	got := map[string]schema.TypeDef{}
	for _, of := range generated.Types {
		got[of.Name] = of
	}
	// Defaults that are no scalars are left out: see _pack.
	inOrder := cmpopts.SortSlices(func(a, b schema.StructField) bool { return a.Name < b.Name })
	composite := cmp.FilterValues(func(x, y any) bool { return isComposite(x) || isComposite(y) }, cmp.Ignore())
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(schema.Schema{}, schema.Map{}), inOrder,
		composite); diff != "" {
		t.Errorf("-wanted +generated\n%s", diff)
	}
}

func isComposite(v any) bool {
	switch v.(type) {
	case map[any]any, map[string]any, []any:
		return true
	}
	return false
}
