package handlers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/applyconfigurations"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"quintet.dev/quintet/components/apiserver/serial"
)

// TestTypesAreTheLibrarys fails when client-go is another than that from which the types were made: run `go generate`.
func TestTypesAreTheLibrarys(t *testing.T) {
	some := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	scheme := serial.NewScheme()
	packed, err := builtInTypes(scheme)
	if err != nil {
		t.Fatal(err)
	}
	got, err := packed.ObjectToTyped(some)
	if err != nil {
		t.Fatal(err)
	}
	want, err := applyconfigurations.NewTypeConverter(scheme).ObjectToTyped(some)
	if err != nil {
		t.Fatal(err)
	}
	unexported := cmpopts.IgnoreUnexported(smdschema.Schema{}, smdschema.Map{})
	if diff := cmp.Diff(want.Schema().Types, got.Schema().Types, unexported); diff != "" {
		t.Errorf("-client-go +packed\n%s", diff)
	}
}
