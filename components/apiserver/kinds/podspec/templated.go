package podspec

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Templated makes the hooks that kinds with a pod template share.
type Templated[P interface {
	api.Object
	comparable
}] struct {
	// Template returns the template, nil if there is none.
	Template func(P) *corev1.PodTemplateSpec
	Path     *field.Path
	// Naming tells that pods are called after the object, so that its name becomes part of host names.
	Naming bool
	// Changed decides whether an update is one to warn about; nil is any that raised the generation.
	Changed func(new, old P) bool
	// More are the kind's own warnings, told before those about the template on create and on such updates; may be nil.
	More func(obj P) []string
}

// Create makes a PrepareCreate that drops features which are off, and then does the rest.
func (t Templated[P]) Create(on api.PodFeatures, rest func(context.Context, P)) func(context.Context, P) {
	return func(ctx context.Context, obj P) {
		if template := t.Template(obj); template != nil {
			DropDisabled(on, &template.Spec, nil)
		}
		rest(ctx, obj)
	}
}

// Update makes a PrepareUpdate in the same way.
func (t Templated[P]) Update(on api.PodFeatures,
	rest func(context.Context, P, P)) func(context.Context, P, P) {
	return func(ctx context.Context, new, old P) {
		if template := t.Template(new); template != nil {
			var was *corev1.PodSpec
			if before := t.Template(old); before != nil {
				was = &before.Spec
			}
			DropDisabled(on, &template.Spec, was)
		}
		rest(ctx, new, old)
	}
}

// Warnings is the Warnings of the kind.
func (t Templated[P]) Warnings(new, old P) []string {
	var none P
	var out []string
	switch {
	case old == none:
		if problems := utilvalidation.IsDNS1123Label(new.GetName()); t.Naming && len(problems) > 0 {
			out = append(out, fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, "+
				"which can result in surprising behavior; a DNS label is recommended: %v", problems))
		}
	case t.Changed != nil:
		if !t.Changed(new, old) {
			return nil
		}
	case new.GetGeneration() == old.GetGeneration():
		return nil
	}
	if t.More != nil {
		out = append(out, t.More(new)...)
	}
	if template := t.Template(new); template != nil {
		out = append(out, TemplateWarnings(template, t.Path)...)
	}
	return out
}

// RulesOf are the rules of pods on a server with these settings.
func RulesOf(deps api.Deps) Rules { return Rules{Privileged: deps.AllowPrivileged} }
