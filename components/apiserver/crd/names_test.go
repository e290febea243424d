package crd

import (
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func named(age time.Duration, plural, kind string, short ...string) *definition {
	return &definition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com", CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{
			Plural: plural, Singular: plural[:len(plural)-1], Kind: kind, ListKind: kind + "List", ShortNames: short,
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
		{"short name that is a plural", named(0, "bars", "Bar", "foos"), "ShortNamesConflict", `"foos" is already in use`},
	} {
		all, changed := decide([]*definition{c.second, named(time.Hour, "foos", "Foo", "f")})
		if len(changed) != 2 || !servable(all[0]) || all[0].Name != "foos.example.com" {
			t.Errorf("%s: the first is %v", c.name, all[0].Status)
		}
		got := apihelpers.FindCRDCondition(all[1], apiextensionsv1.NamesAccepted)
		if got.Reason != c.reason || got.Message != c.detail {
			t.Errorf("%s: %s: %s", c.name, got.Reason, got.Message)
		}
		if apihelpers.IsCRDConditionTrue(all[1], apiextensionsv1.Established) != (c.reason == "NoConflicts") {
			t.Errorf("%s: %v", c.name, all[1].Status.Conditions)
		}
		if _, again := decide(all); len(again) > 0 {
			t.Errorf("%s: decided twice, %v changes", c.name, again)
		}
	}
}
