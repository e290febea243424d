package crd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// converter makes the object of another version, by a webhook. It does not change its argument.
type converter func(obj *unstructured.Unstructured, to schema.GroupVersion) (*unstructured.Unstructured, error)

// raw implements api.Custom.Convert. What is of that version already is returned as it is.
func (r *resource) raw(obj api.Object, to schema.GroupVersion) (api.Object, error) {
	in, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s: can't convert a %T", r.kind.Name, obj)
	}
	switch {
	case in.GroupVersionKind().GroupVersion() == to:
		return in, nil
	case r.convert != nil:
		return r.convert(in, to)
	}
	out := in.DeepCopy()
	out.SetGroupVersionKind(to.WithKind(in.GetKind()))
	return out, nil
}

// to makes an object of version v of one of any version: what v doesn't know is not in it.
func (r *resource) to(v *version, obj api.Object) (api.Object, error) {
	out, err := r.raw(obj, v.gvk.GroupVersion())
	if err == nil && out != obj {
		_, err = v.coerce(out, false)
	}
	if err != nil {
		return nil, &api.ConversionError{Err: err}
	}
	return out, nil
}

// in is to for looking at an object only; what can't be converted stays as it is.
func (r *resource) in(v *version, obj api.Object) *unstructured.Unstructured {
	out, err := r.to(v, obj)
	if err != nil {
		return obj.(*unstructured.Unstructured)
	}
	return out.(*unstructured.Unstructured)
}
