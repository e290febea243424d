package certificates

import (
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

func TestAttest(t *testing.T) {
	of := func(signer, label string, finalizers ...string) *certificatesv1beta1.ClusterTrustBundle {
		return &certificatesv1beta1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"l": label}, Finalizers: finalizers},
			Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer},
		}
	}
	for name, test := range map[string]struct {
		g        grants
		obj, old *certificatesv1beta1.ClusterTrustBundle
		want     bool
	}{
		"no signer":          {nil, of("", "a"), nil, true},
		"this signer":        {grants{"attest": {"a.b/c"}}, of("a.b/c", "a"), nil, true},
		"the whole domain":   {grants{"attest": {"a.b/*"}}, of("a.b/c", "a"), nil, true},
		"another verb":       {grants{"sign": {"a.b/c"}}, of("a.b/c", "a"), nil, false},
		"a change":           {nil, of("a.b/c", "a"), of("a.b/c", "b"), false},
		"garbage collection": {nil, of("a.b/c", "a", "f"), of("a.b/c", "a"), true},
	} {
		var old runtime.Object
		op := admission.Create
		if test.old != nil {
			old, op = test.old, admission.Update
		}
		a := admission.NewAttributesRecord(test.obj, old, schema.GroupVersionKind{}, "", "b",
			bundles.WithVersion("v1beta1"), "", op, nil, false, &user.DefaultInfo{Name: "jane"})
		if err := NewAttest(test.g).Validate(t.Context(), a, nil); (err == nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := NewAttest(nil).Validate(t.Context(), record(csr("a.b/c", nil), nil, "", admission.Create),
		nil); err != nil {
		t.Errorf("of another kind: %v", err)
	}
}
