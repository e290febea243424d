package crd

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/openapi"
)

// Extensions of schemas.
const (
	gvkExtension      = "x-kubernetes-group-version-kind"
	keepExtension     = "x-kubernetes-preserve-unknown-fields"
	embeddedExtension = "x-kubernetes-embedded-resource"
	selectExtension   = "x-kubernetes-selectable-fields"
)

// openAPIVersion is the cache of one of the versions of OpenAPI.
type openAPIVersion struct {
	v2     bool
	prefix string // of references
}

var (
	openAPIV2 = openAPIVersion{v2: true, prefix: "#/definitions/"}
	openAPIV3 = openAPIVersion{prefix: "#/components/schemas/"}
)

// definitions implements api.Custom.Definitions.
func (v *version) definitions(v2 bool) (map[string]json.RawMessage, error) {
	b := openAPIV3
	if v2 {
		b = openAPIV2
	}
	out := map[string]json.RawMessage{}
	for name, s := range v.schemas(b) {
		text, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}

// digest is the same for versions of which the same is told.
func (v *version) digest() string {
	definitions, err := v.definitions(false)
	if err != nil {
		return err.Error() // as the document will say
	}
	text, err := json.Marshal(definitions)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%X", sha512.Sum512_256(text))
}

// schemas are those of an object and of a list.
func (v *version) schemas(b openAPIVersion) map[string]*spec.Schema {
	model, listKind := api.CustomModel(v.gvk), v.gvk
	listKind.Kind = v.names.ListKind
	object, list := b.object(v), b.list(v, model)
	object.AddExtension(gvkExtension, gvkOf(v.gvk.Group, v.gvk.Version, v.gvk.Kind))
	list.AddExtension(gvkExtension, gvkOf(v.gvk.Group, v.gvk.Version, listKind.Kind))
	if fields := v.selectablePaths(); fields != nil {
		object.AddExtension(selectExtension, fields)
		list.AddExtension(selectExtension, fields)
	}
	return map[string]*spec.Schema{model: object, api.CustomModel(listKind): list}
}

func gvkOf(group, version, kind string) []any {
	return []any{map[string]any{"group": group, "version": version, "kind": kind}}
}

func (v *version) selectablePaths() []any {
	var out []any
	for _, f := range v.spec.SelectableFields {
		out = append(out, map[string]any{"fieldPath": strings.TrimPrefix(f.JSONPath, ".")})
	}
	return out
}

// object is the schema of the objects. Where anything may stand, OpenAPI v2 gets no properties at all, as clients take
// those for all that there are. A schema that isn't structural isn't told.
func (b openAPIVersion) object(v *version) *spec.Schema {
	if v.schema == nil || len(structural.ValidateStructural(nil, v.schema)) > 0 ||
		b.v2 && (v.schema.XPreserveUnknownFields || v.keepAll) {
		return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	}
	s := v.schema.DeepCopy().Unfold()
	if b.v2 {
		s = openapiv2.ToStructuralOpenAPIV2(s)
	}
	out := s.ToKubeOpenAPI()
	out.SetProperty("metadata",
		b.reference(openapi.ObjectMeta, metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"]))
	typeMeta(out)
	b.embedded(out)
	return out
}

func (b openAPIVersion) list(v *version, model string) *spec.Schema {
	items := spec.ArrayProperty(spec.RefSchema(b.prefix + model)).WithDescription(fmt.Sprintf(
		"List of %s. More info: "+conventions, v.names.Plural))
	out := new(spec.Schema).Typed("object", "").
		WithDescription(fmt.Sprintf("%s is a list of %s", v.names.ListKind, v.names.Kind)).
		WithRequired("items").
		SetProperty("items", *items).
		SetProperty("metadata", b.reference(openapi.ListMeta,
			metav1.PartialObjectMetadataList{}.SwaggerDoc()["metadata"]))
	typeMeta(out)
	return out
}

func (b openAPIVersion) reference(model, description string) spec.Schema {
	if b.v2 {
		return *spec.RefSchema(b.prefix + model).WithDescription(description)
	}
	// In v3.0 nothing may stand beside a reference.
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Description: description, AllOf: []spec.Schema{*spec.RefSchema(b.prefix + model)},
	}}
}

// typeMeta adds kind and apiVersion.
func typeMeta(s *spec.Schema) {
	doc := metav1.TypeMeta{}.SwaggerDoc()
	for _, name := range []string{"apiVersion", "kind"} {
		s.SetProperty(name, *spec.StringProperty().WithDescription(doc[name]))
	}
}

// embeddedDescriptions are what clients are told of the type of an object in an object.
var embeddedDescriptions = map[string]string{
	"apiVersion": "apiVersion defines the versioned schema of this representation of an object. More info: " +
		conventions + "#resources",
	"kind": "kind is a string value representing the type of this object. In CamelCase. More info: " +
		conventions + "#types-kinds",
}

const conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"

// embedded gives objects in objects what every object has, and takes defaults away, which OpenAPI v2 doesn't tell.
func (b openAPIVersion) embedded(s *spec.Schema) {
	if s == nil {
		return
	}
	if b.v2 {
		s.Default = nil
	}
	for name := range s.Properties {
		p := s.Properties[name]
		b.embedded(&p)
		s.Properties[name] = p
	}
	if s.Items != nil {
		b.embedded(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		b.embedded(s.AdditionalProperties.Schema)
	}
	if keep, _ := s.Extensions.GetBool(keepExtension); keep && b.v2 {
		return
	}
	if is, _ := s.Extensions.GetBool(embeddedExtension); !is {
		return
	}
	for name, description := range embeddedDescriptions {
		s.SetProperty(name, *spec.StringProperty().WithDescription(description))
	}
	s.SetProperty("metadata", b.reference(openapi.ObjectMeta, metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"]))
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}

// newTypes describes all versions to structured merge.
func newTypes(versions map[string]*version, keepAll bool) (managedfields.TypeConverter, error) {
	all, err := openapi.Schemas(openapi.ObjectMeta, openapi.ListMeta)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		maps.Copy(all, v.schemas(openAPIV3))
	}
	return managedfields.NewTypeConverter(all, keepAll)
}
