package crd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// converter asks somebody else for an object in another version. It does not change its argument.
type converter func(obj *unstructured.Unstructured, to schema.GroupVersion) (*unstructured.Unstructured, error)

// to makes an object of version v of one of any version.
func (r *resource) to(v *version, obj kinds.Object) (kinds.Object, error) {
	in, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s: can't convert a %T", r.kind.Name, obj)
	}
	if in.GroupVersionKind() == v.gvk {
		return in, nil
	}
	var out *unstructured.Unstructured
	if r.convert == nil {
		out = in.DeepCopy()
		out.SetGroupVersionKind(v.gvk)
	} else {
		var err error
		if out, err = r.convert(in, v.gvk.GroupVersion()); err != nil {
			return nil, err
		}
	}
	_, err := v.coerce(out, false)
	return out, err
}

// in is to for an object that the schema was applied to already; what can't be converted stays as it is.
func (r *resource) in(v *version, obj kinds.Object) *unstructured.Unstructured {
	out, err := r.to(v, obj)
	if err != nil {
		return obj.(*unstructured.Unstructured)
	}
	return out.(*unstructured.Unstructured)
}
