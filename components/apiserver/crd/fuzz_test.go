package crd

import (
	"context"
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/apiextensions"
)

// fuzzedDefinition is a definition with that schema.
func fuzzedDefinition(schema *apiextensionsv1.JSONSchemaProps) *definition {
	crd := &definition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", UID: "u"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.n",
						StatusReplicasPath: ".status.n"},
				},
			}},
		},
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	apiextensions.PrepareCreate(context.Background(), crd)
	return crd
}

// FuzzSchema: a schema is refused, or else it can be served: objects of any content are coerced, defaulted, checked
// (CEL rules included), shown and described, and defaulting them again changes nothing.
func FuzzSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object"}`, `{"a":1}`},
		{`{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","default":1},"p":{"x-kubernetes-int-or-string":true}},
			"x-kubernetes-validations":[{"rule":"self.n > 0 && oldSelf.n <= self.n","messageExpression":"string(self.n)"}]}}}`,
			`{"spec":{"n":-1,"p":"x"}}`},
		{`{"type":"object","properties":{"l":{"type":"array","maxItems":5,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
			"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string","default":"d"}}}}}}`,
			`{"l":[{"k":"a"},{"k":"a"},{}]}`},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"e":{"type":"object","x-kubernetes-embedded-resource":true}}}`,
			`{"e":{"kind":"K","metadata":{"name":1}},"z":[null,{}]}`},
		{`{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string","nullable":true,"format":"byte","pattern":"^a*$"}}}}`, `{"m":{"a":null,"b":3}}`},
		{`{"type":"object","properties":{"a":{"anyOf":[{"required":["x"]}],"not":{"required":["y"]},"type":"object"}}}`,
			`{"a":{"y":1.5e300}}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, schema, content []byte) {
		props := &apiextensionsv1.JSONSchemaProps{}
		var object map[string]any
		if json.Unmarshal(schema, props) != nil || json.Unmarshal(content, &object) != nil || object == nil {
			return
		}
		crd := fuzzedDefinition(props)
		if errs := apiextensions.Validate(crd); len(errs) > 0 {
			return
		}
		r, err := newResource(crd, crd.Spec.Names, nil, nil)
		if err != nil {
			t.Fatalf("a definition that is valid can't be served: %v", err)
		}
		exercise(t, r, object)
	})
}

func exercise(t *testing.T, r *resource, object map[string]any) {
	ctx := t.Context()
	v := r.kind.HubVersion()
	obj := &unstructured.Unstructured{Object: object}
	obj.SetGroupVersionKind(v.WithKind(r.kind.Name))
	if _, err := v.Coerce(obj, false); err != nil {
		return
	}
	v.Default(obj)
	once := obj.DeepCopy()
	v.Default(obj)
	if !sameButMetadata(once.Object, obj.Object) {
		t.Fatalf("defaulted again, %v is %v", once, obj)
	}
	old := obj.DeepCopy()
	r.kind.Strategy.PrepareCreate(ctx, obj)
	r.kind.Strategy.Validate(ctx, obj)
	r.kind.Strategy.PrepareUpdate(ctx, obj, old)
	r.kind.Strategy.ValidateAmong(ctx, obj, old, api.MetaErrors{})
	for _, sub := range r.kind.SubresourcesIn(v.GroupVersion) {
		if sub.Strategy != nil {
			sub.Strategy.PrepareUpdate(ctx, obj, old)
			sub.Strategy.ValidateAmong(ctx, obj, old, api.MetaErrors{})
		}
		if sub.Scale != nil && sub.Scale.Check(obj) == nil {
			sub.Scale.Get(obj)
		}
	}
	r.kind.Row(obj)
	if _, err := r.kind.Custom.Types(); err != nil {
		t.Fatalf("its types: %v", err)
	}
	for _, v2 := range []bool{false, true} {
		if _, err := r.kind.Custom.Definitions("v1", v2); err != nil {
			t.Fatalf("its OpenAPI: %v", err)
		}
	}
}
