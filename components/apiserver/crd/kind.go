package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// resource is a defined resource that is served.
type resource struct {
	kind     *api.Kind
	names    apiextensionsv1.CustomResourceDefinitionNames
	versions map[string]*version
	stored   *version
	convert  converter
	// See api.Custom.
	established, ending atomic.Bool
	// turned is when established last changed, in seconds since 1970, as definitions have it; 0 if it never did.
	turned atomic.Int64
}

// newResource makes the row of a definition under the names that were accepted. convert may be nil if all versions are
// the same but for their names, or if there is a fault that keeps them from being converted.
func newResource(crd *apiextensionsv1.CustomResourceDefinition, names apiextensionsv1.CustomResourceDefinitionNames,
	convert converter, fault error) (*resource, error) {
	r := &resource{names: names, versions: map[string]*version{}, convert: convert}
	stored, err := apihelpers.GetCRDStorageVersion(crd)
	if err != nil {
		return nil, err
	}
	for i := range crd.Spec.Versions {
		spec := &crd.Spec.Versions[i]
		v, err := newVersion(crd, spec, names)
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", spec.Name, err)
		}
		r.versions[spec.Name] = v
	}
	r.stored = r.versions[stored]
	r.kind = &api.Kind{
		Name: names.Kind, Resource: names.Plural, Singular: names.Singular,
		ShortNames: names.ShortNames, Categories: names.Categories,
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Hub:        schema.GroupVersion{Group: crd.Spec.Group, Version: stored},
		Prefix:     crd.Spec.Group + "/" + names.Plural,
		// upstream's order
		Verbs:    []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
		Strategy: r.strategy(),
		Columns:  r.stored.columns(),
		Custom: &api.Custom{
			ListKind: names.ListKind, Fault: fault, Established: r.established.Load, Ending: r.ending.Load,
			Convert: r.raw, Remote: convert != nil,
			Types: sync.OnceValues(func() (managedfields.TypeConverter, error) {
				return newTypes(r.versions, crd.Spec.PreserveUnknownFields)
			}),
			Definitions: func(version string, v2 bool) (map[string]json.RawMessage, error) {
				return r.versions[version].definitions(v2)
			},
			Revision: func(version string) string { return r.versions[version].revision() },
		},
	}
	r.kind.Row = r.stored.row()
	for i := range crd.Spec.Versions {
		r.kind.Versions = append(r.kind.Versions, r.served(crd, &crd.Spec.Versions[i]))
	}
	r.selectable()
	return r, nil
}

// served is how the table shows a version.
func (r *resource) served(crd *apiextensionsv1.CustomResourceDefinition,
	spec *apiextensionsv1.CustomResourceDefinitionVersion) api.Version {
	v := r.versions[spec.Name]
	out := api.Version{
		GroupVersion: v.gvk.GroupVersion(), Unserved: !spec.Served,
		New: v.empty, Coerce: r.coerce, Default: v.setDefaults,
		Columns: v.columns(), Row: v.row(),
		DeprecationWarning: deprecation(crd, spec),
		Subresources:       r.subresources(v),
	}
	out.FromHub = func(obj api.Object) (api.Object, error) { return r.to(v, obj) }
	return out
}

func (r *resource) subresources(v *version) []api.Subresource {
	var out []api.Subresource
	verbs := []string{"get", "patch", "update"}
	sub := v.spec.Subresources
	if sub == nil {
		return nil
	}
	if sub.Status != nil {
		s := r.statusStrategy()
		out = append(out, api.Subresource{Name: "status", Verbs: verbs, Strategy: &s})
	}
	if sub.Scale != nil {
		out = append(out, api.Subresource{
			Name: "scale", Verbs: verbs, Body: autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
			Scale: v.scale(r.versions),
		})
	}
	return out
}

// at is the version in which a request speaks; the stored one if there is no request.
func (r *resource) at(ctx context.Context) *version {
	if info, ok := request.RequestInfoFrom(ctx); ok && info.APIGroup == r.kind.Hub.Group &&
		info.Resource == r.kind.Resource {
		if v := r.versions[info.APIVersion]; v != nil {
			return v
		}
	}
	return r.stored
}

// resetStatus are the fields that writes past the status subresource don't touch, by version.
func (r *resource) resetStatus() map[string]*fieldpath.Set {
	out := map[string]*fieldpath.Set{}
	for _, v := range r.versions {
		if v.hasStatus() {
			out[v.gvk.GroupVersion().String()] = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
		}
	}
	return out
}

// resetAllButStatus are the fields that writes through the status subresource don't touch, by version.
func (r *resource) resetAllButStatus() map[string]*fieldpath.Set {
	out := map[string]*fieldpath.Set{}
	for _, v := range r.versions {
		if v.hasStatus() {
			out[v.gvk.GroupVersion().String()] = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"),
				fieldpath.MakePathOrDie("spec"))
		}
	}
	return out
}

var metadataDoc = metav1.ObjectMeta{}.SwaggerDoc
