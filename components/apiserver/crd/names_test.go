package crd

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func named(age time.Duration, plural, kind string, short ...string) *definition {
	return &definition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com",
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com",
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Singular: plural[:len(plural)-1], Kind: kind, ListKind: kind + "List",
				ShortNames: short,
			}},
	}
}

func TestDecideNames(t *testing.T) {
	for _, c := range []struct {
		name           string
		second         *definition
		reason, detail string
	}{
		{"nothing in common", named(0, "bars", "Bar", "b"), "NoConflicts", "no conflicts found"},
		{"kind", named(0, "bars", "Foo"), "ListKindConflict", `"FooList" is already in use`},
		{"short name", named(0, "bars", "Bar", "f", "b"), "ShortNamesConflict", `"f" is already in use`},
		{"short name that is a plural", named(0, "bars", "Bar", "foos"), "ShortNamesConflict",
			`"foos" is already in use`},
	} {
		all, changed := new(conditionEvaluator).decide([]*definition{c.second, named(time.Hour, "foos", "Foo", "f")})
		if len(changed) != 2 || !servable(all[0]) || all[0].Name != "foos.example.com" {
			t.Errorf("%s: the first is %v", c.name, all[0].Status)
		}
		got := apihelpers.FindCRDCondition(all[1], apiextensionsv1.NamesAccepted)
		if got.Reason != c.reason || got.Message != c.detail {
			t.Errorf("%s: %s: %s", c.name, got.Reason, got.Message)
		}
		wanted := []string{"Installing", "InitialNamesAccepted"}
		if c.reason != "NoConflicts" {
			wanted = []string{"NotAccepted", "NotAccepted"}
		}
		first := apihelpers.FindCRDCondition(all[1], apiextensionsv1.Established).Reason
		all, _ = new(conditionEvaluator).decide(all)
		if then := apihelpers.FindCRDCondition(all[1], apiextensionsv1.Established).Reason; first != wanted[0] ||
			then != wanted[1] {
			t.Errorf("%s: established: %s, %s", c.name, first, then)
		}
		if _, again := new(conditionEvaluator).decide(all); len(again) > 0 {
			t.Errorf("%s: decided three times, %v changes", c.name, again)
		}
	}
}

// TestDecideAsAsked: what clients write into a status stays, but for what isn't theirs to say.
func TestDecideAsAsked(t *testing.T) {
	settled := func() *definition {
		all, _ := new(conditionEvaluator).decide([]*definition{named(0, "foos", "Foo")})
		all, _ = new(conditionEvaluator).decide(all)
		return all[0]
	}
	wiped := settled()
	wiped.Status.Conditions = nil
	if all, changed := new(conditionEvaluator).decide([]*definition{wiped}); len(changed) > 0 || servable(all[0]) {
		t.Errorf("without conditions: %v", all[0].Status.Conditions)
	}
	other := settled()
	other.Status.AcceptedNames.Kind = "Bar"
	if all, _ := new(conditionEvaluator).decide([]*definition{other}); all[0].Status.AcceptedNames.Kind != "Foo" ||
		!established(all[0]) {
		t.Errorf("with another kind accepted: %v", all[0].Status)
	}
	renamed := settled()
	renamed.Spec.Names.Kind = "Bar"
	older, _ := new(conditionEvaluator).decide([]*definition{named(time.Hour, "bars", "Bar")})
	all, _ := new(conditionEvaluator).decide([]*definition{older[0], renamed})
	if accepted(all[1]) || !established(all[1]) || all[1].Status.AcceptedNames.Kind != "Foo" {
		t.Errorf("renamed as another: %v", all[1].Status)
	}
}

// TestDecideOwnNames: what a definition has for one purpose it doesn't get for another, but keeps.
func TestDecideOwnNames(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinitionNames)
		reason string
	}{
		"the singular as a short name": {
			func(n *apiextensionsv1.CustomResourceDefinitionNames) { n.ShortNames = []string{"f", "foo"} },
			"ShortNamesConflict"},
		"both exchanged": {func(n *apiextensionsv1.CustomResourceDefinitionNames) {
			n.Singular, n.ShortNames = "f", []string{"foo"}
		}, "ShortNamesConflict"},
		"the list kind as the kind": {func(n *apiextensionsv1.CustomResourceDefinitionNames) { n.Kind = "FooList" },
			"KindConflict"},
		"one more short name": {
			func(n *apiextensionsv1.CustomResourceDefinitionNames) { n.ShortNames = []string{"f", "g"} },
			"NoConflicts"},
		"less": {func(n *apiextensionsv1.CustomResourceDefinitionNames) { n.ShortNames = nil },
			"NoConflicts"},
	} {
		all, _ := new(conditionEvaluator).decide([]*definition{named(0, "foos", "Foo", "f")})
		all, _ = new(conditionEvaluator).decide(all)
		all[0] = all[0].DeepCopy()
		c.change(&all[0].Spec.Names)
		all, _ = new(conditionEvaluator).decide(all)
		if got := apihelpers.FindCRDCondition(all[0], apiextensionsv1.NamesAccepted); got.Reason != c.reason ||
			!established(all[0]) {
			t.Errorf("%s: %s: %s", name, got.Reason, got.Message)
		}
	}
}

func TestDecideWithoutCertificates(t *testing.T) {
	crd := named(0, "foos", "Foo")
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte("none")}},
	}
	all, _ := new(conditionEvaluator).decide([]*definition{crd})
	all, _ = new(conditionEvaluator).decide(all)
	if got := apihelpers.FindCRDCondition(all[0], apiextensionsv1.Established); got.Reason != "InvalidCABundle" ||
		established(all[0]) {
		t.Errorf("established: %v", got)
	}
	all[0].Spec.Conversion = nil
	if all, _ = new(conditionEvaluator).decide(all); !established(all[0]) {
		t.Errorf("not established: %v", all[0].Status.Conditions)
	}
}

// TestDecidedOnce: definitions that are the same still cost next to nothing, however large they are.
func TestDecidedOnce(t *testing.T) {
	const many = 200
	crd := named(0, "foos", "Foo")
	props := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for i := range many {
		props.Properties[fmt.Sprint("p", i)] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
	}}
	var j conditionEvaluator
	all, _ := j.decide([]*definition{crd})
	all, _ = j.decide(all)
	if _, changed := j.decide(all); len(changed) > 0 {
		t.Fatal("it isn't settled", changed)
	}
	if n := testing.AllocsPerRun(5, func() { j.decide(all) }); n > many {
		t.Errorf("%v allocations", n)
	}
	all[0] = all[0].DeepCopy()
	all[0].Spec.PreserveUnknownFields = true
	if _, changed := j.decide(all); len(changed) != 1 {
		t.Error("a definition that was changed is taken for the one that was there")
	}
}
