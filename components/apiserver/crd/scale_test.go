package crd

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhatIsNoScale: fields of other types than those of a Scale are told of, wherever they are.
func TestWhatIsNoScale(t *testing.T) {
	v := &version{spec: &apiextensionsv1.CustomResourceDefinitionVersion{
		Subresources: &apiextensionsv1.CustomResourceSubresources{
			Scale: &apiextensionsv1.CustomResourceSubresourceScale{
				SpecReplicasPath: ".spec.n", StatusReplicasPath: ".status.n",
				LabelSelectorPath: new(".status.selector"),
			},
		}}}
	scale := v.scale(map[string]*version{})
	of := func(spec, status map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
	}
	for _, c := range []struct {
		obj       *unstructured.Unstructured
		good, has bool
	}{
		{of(map[string]any{"n": int64(1)}, map[string]any{"n": int64(2), "selector": "a=b"}), true, true},
		{of(map[string]any{}, nil), true, false},
		{of(map[string]any{"n": "1"}, nil), false, false},
		{of(map[string]any{"n": int64(1)}, map[string]any{"n": "2"}), false, false},
		{of(map[string]any{"n": int64(1)}, map[string]any{"selector": int64(3)}), false, false},
	} {
		if err := scale.Check(c.obj); (err == nil) != c.good || scale.Has(c.obj) != c.has {
			t.Errorf("%v: %v, %t", c.obj.Object, err, scale.Has(c.obj))
		}
	}
	if err := scale.Set(&unstructured.Unstructured{Object: map[string]any{"spec": nil}}, 1); err == nil {
		t.Error("replicas are set where they can't be")
	}
}
