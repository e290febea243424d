package crd

import (
	"context"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/metrics/legacyregistry"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// ruled is a resource of which no object obeys the rule, and an object of it.
func ruled(t *testing.T) (*resource, *unstructured.Unstructured) {
	t.Helper()
	r, err := newResource(fuzzedDefinition(&apiextensionsv1.JSONSchemaProps{
		Type:         "object",
		XValidations: apiextensionsv1.ValidationRules{{Rule: "has(self.kind) && false", Message: "never"}},
	}), apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": "b"},
	}}
}

const (
	never     = "never"
	unchecked = "some validation rules were not checked because the object was invalid"
)

// TestFaultsOfMetadataKeepRulesFromBeingChecked, if they are of those that do.
func TestFaultsOfMetadataKeepRulesFromBeingChecked(t *testing.T) {
	r, good := ruled(t)
	holds := func(what string, errs field.ErrorList, want string, causes int) {
		t.Helper()
		if len(errs) != causes || !strings.Contains(errs[causes-1].Error(), want) {
			t.Errorf("%s: want %d causes, %q the last, got %v", what, causes, want, errs)
		}
	}
	validate := r.kind.Strategy.Validate
	holds("good metadata", validate(context.Background(), good), never, 1)
	nameless, long, odd := good.DeepCopy(), good.DeepCopy(), good.DeepCopy()
	nameless.SetName("")
	long.SetAnnotations(map[string]string{"a": strings.Repeat("x", 300<<10)})
	odd.SetName("A")
	holds("without a name", validate(context.Background(), nameless), unchecked, 2)
	holds("long annotations", validate(context.Background(), long), unchecked, 2)
	holds("an odd name", validate(context.Background(), odd), never, 2)
	tooLong := api.MetaErrors{Change: field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", 1)}}
	status := r.kind.Versions[0].Subresources[0].Strategy
	for name, change := range map[string]func(context.Context, api.Object, api.Object,
		api.MetaErrors) field.ErrorList{
		"change": r.kind.Strategy.ValidateAmong, "change of the status": status.ValidateAmong,
	} {
		after := good.DeepCopy()
		after.Object["status"] = map[string]any{"n": int64(1)}
		holds(name, change(context.Background(), after, good, api.MetaErrors{}), never, 1)
		holds(name, change(context.Background(), after, good, tooLong), unchecked, 2)
	}
}

// TestRatchetingIsMeasured, once for each change.
func TestRatchetingIsMeasured(t *testing.T) {
	measured := func() (n uint64) {
		all, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range all {
			if family.GetName() == "apiextensions_apiserver_validation_ratcheting_seconds" {
				n = family.GetMetric()[0].GetHistogram().GetSampleCount()
			}
		}
		return n
	}
	r, obj := ruled(t)
	before := measured()
	r.kind.Strategy.ValidateAmong(context.Background(), obj, obj, api.MetaErrors{})
	r.kind.Versions[0].Subresources[0].Strategy.ValidateAmong(context.Background(), obj, obj, api.MetaErrors{})
	if n := measured() - before; n != 2 {
		t.Errorf("two changes were measured %d times", n)
	}
}
