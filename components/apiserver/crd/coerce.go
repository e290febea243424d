package crd

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// coerce implements api.Version.Coerce. An object of a version that there isn't has nothing that is known, and of one
// of another kind nothing is known at all but its metadata.
func (r *resource) coerce(obj api.Object, stored bool) ([]string, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Group != r.kind.Hub.Group || gvk.Kind != r.kind.Name {
		return (&version{foreign: true}).coerce(obj, stored)
	}
	if v := r.versions[gvk.Version]; v != nil {
		return v.coerce(obj, stored)
	}
	return (&version{keepAll: r.stored.keepAll}).coerce(obj, stored)
}

// coerce leaves metadata as every object has it, no field that the schema doesn't know, no null where none may be
// (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning).
func (v *version) coerce(obj api.Object, stored bool) ([]string, error) {
	u := obj.(*unstructured.Unstructured)
	content := u.Object
	kind, _, err := unstructured.NestedString(content, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, _, err := unstructured.NestedString(content, "apiVersion")
	if err != nil {
		return nil, err
	}
	meta, hasMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(content, objectmeta.ObjectMetaOptions{
		DropMalformedFields: stored, ReturnUnknownFieldPaths: !stored,
	})
	if err != nil {
		return nil, err
	}
	if !v.foreign {
		if !v.keepAll {
			unknown = append(unknown, pruning.PruneWithOptions(content, v.schema, true,
				structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: !stored})...)
			defaulting.PruneNonNullableNullsWithoutDefaults(content, v.schema)
		}
		problem, embedded := objectmeta.CoerceWithOptions(nil, content, v.schema, false, objectmeta.CoerceOptions{
			DropInvalidFields: stored, ReturnUnknownFieldPaths: !stored,
		})
		if problem != nil {
			return nil, problem
		}
		unknown = append(unknown, embedded...)
	}
	u.SetKind(kind)
	u.SetAPIVersion(apiVersion)
	if !hasMeta {
		return unknown, nil
	}
	if stored && meta.Generation == 0 {
		meta.Generation = 1 // very old objects have none
	}
	return unknown, objectmeta.SetObjectMeta(content, meta)
}
