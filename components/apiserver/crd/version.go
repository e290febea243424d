package crd

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// version is one version of a defined resource.
type version struct {
	spec  *apiextensionsv1.CustomResourceDefinitionVersion
	gvk   schema.GroupVersionKind
	names apiextensionsv1.CustomResourceDefinitionNames
	// schema is not changed; nil if there is none.
	schema     *structural.Structural
	namespaced bool
	keepAll    bool // unknown fields are kept everywhere
	foreign    bool // it is none of the resource
	// checks are made when something is first validated.
	checks func() (*checks, error)
	// rules are compiled when something is first validated; nil if there are none.
	rules func() *cel.Validator
	// revision stands for what the documents of OpenAPI tell of it.
	revision func() string
}

// checks are the validators of the schema, and of its part for the status.
type checks struct{ whole, status validation.SchemaValidator }

func newVersion(crd *apiextensionsv1.CustomResourceDefinition, spec *apiextensionsv1.CustomResourceDefinitionVersion,
	names apiextensionsv1.CustomResourceDefinitionNames) (*version, error) {
	v := &version{
		spec: spec, gvk: schema.GroupVersionKind{Group: crd.Spec.Group, Version: spec.Name, Kind: names.Kind},
		names:      names,
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, keepAll: crd.Spec.PreserveUnknownFields,
	}
	v.revision = sync.OnceValue(v.digest)
	props, err := schemaOf(spec)
	if err != nil {
		return nil, err
	}
	if props != nil {
		if err := v.take(props); err != nil {
			return nil, err
		}
	}
	v.checks = sync.OnceValues(func() (*checks, error) { return newChecks(props) })
	v.rules = sync.OnceValue(func() *cel.Validator {
		if v.schema == nil {
			return nil
		}
		return cel.NewValidator(v.schema, true, celconfig.PerCallLimit)
	})
	return v, nil
}

// take makes the schema what it is without what makes it no schema of objects. Where unknown fields are kept, which
// only old definitions say, it need not be structural.
func (v *version) take(props *apiextensions.JSONSchemaProps) error {
	s, err := structural.NewStructural(props)
	switch {
	case err != nil && v.keepAll:
		return nil
	case err != nil:
		return fmt.Errorf("the schema is not structural: %w", err)
	}
	v.schema = s.DeepCopy()
	if v.keepAll {
		return nil
	}
	if err := defaulting.PruneDefaults(v.schema); err != nil {
		return fmt.Errorf("the schema's defaults: %w", err)
	}
	return nil
}

func newChecks(props *apiextensions.JSONSchemaProps) (out *checks, err error) {
	out = &checks{}
	if out.whole, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, err
	}
	if props == nil {
		return out, nil
	}
	if status, ok := props.Properties["status"]; ok {
		out.status, _, err = validation.NewSchemaValidator(&status)
	}
	return out, err
}

func (v *version) hasStatus() bool {
	return v.spec.Subresources != nil && v.spec.Subresources.Status != nil
}

func (v *version) scaleSpec() *apiextensionsv1.CustomResourceSubresourceScale {
	if v.spec.Subresources == nil {
		return nil
	}
	return v.spec.Subresources.Scale
}

// empty makes an object of this version.
func (v *version) empty() api.Object {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(v.gvk)
	return u
}

func (v *version) setDefaults(obj api.Object) {
	if v.schema != nil {
		defaulting.Default(obj.(*unstructured.Unstructured).Object, v.schema)
	}
}

// deprecation is the warning that goes with requests for a version, "" for none.
func deprecation(crd *apiextensionsv1.CustomResourceDefinition,
	v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	switch {
	case !v.Deprecated:
		return ""
	case v.DeprecationWarning != nil:
		return *v.DeprecationWarning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", crd.Spec.Group, v.Name, crd.Spec.Names.Kind)
	var better []string
	for _, other := range crd.Spec.Versions {
		if other.Served && !other.Deprecated && utilversion.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0 {
			better = append(better, other.Name)
		}
	}
	if len(better) == 0 {
		return text
	}
	best := slices.MaxFunc(better, utilversion.CompareKubeAwareVersionStrings)
	return fmt.Sprintf("%s; use %s/%s %s", text, crd.Spec.Group, best, crd.Spec.Names.Kind)
}
