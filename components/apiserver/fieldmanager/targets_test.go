package fieldmanager

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/managedfields"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// allTargets are those of all built-in kinds whose bodies are objects, by resource and subresource.
func allTargets(t testing.TB) (*Types, map[string]Target) {
	t.Helper()
	out := map[string]Target{}
	for _, kind := range kinds.Table(api.Deps{}) {
		for i := range kind.Versions {
			v := &kind.Versions[i]
			if v.Unserved {
				continue
			}
			main := Target{
				Kind: kind, Version: v, Body: v.WithKind(kind.Name), Reset: kind.Strategy.ResetFields,
			}
			name := v.WithResource(kind.Resource).String()
			out[name] = main
			for j := range kind.Subresources {
				target := main
				if target.Subresource = &kind.Subresources[j]; target.Subresource.Strategy == nil {
					continue
				}
				target.Reset = target.Subresource.Strategy.ResetFields
				if target.Subresource.Body.Empty() {
					out[name+"/"+target.Subresource.Name] = target
				}
			}
		}
	}
	return NewTypes(codec.NewScheme()), out
}

// podTarget are pods; all changes of them are tracked.
func podTarget(t testing.TB) (*Types, Target) {
	t.Helper()
	types, targets := allTargets(t)
	pods := targets["/v1, Resource=pods"]
	if pods.Kind == nil {
		t.Fatal("no pods")
	}
	pods.Reset = nil
	return types, pods
}

// referenceOf is structured merge's own manager of a target's fields, without any fast path.
func referenceOf(t testing.TB, types *Types, target Target) *managedfields.FieldManager {
	t.Helper()
	c := newConverter(target.Kind)
	out, err := managedfields.NewDefaultFieldManager(
		types, c, c, c, target.Body, target.Kind.Hub, target.subresource(), target.filters())
	if err != nil {
		t.Fatal(err)
	}
	return out
}
