package kinds

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// templated makes the hooks that kinds with a pod template share.
type templated[P interface {
	Object
	comparable
}] struct {
	// template returns the template, nil if there is none.
	template func(P) *corev1.PodTemplateSpec
	path     *field.Path
	// naming tells that pods are called after the object, so that its name becomes part of host names.
	naming bool
	// changed decides whether an update is one to warn about; nil is any that raised the generation.
	changed func(new, old P) bool
	// more are the kind's own warnings, told before those about the template on create and on such updates; may be nil.
	more func(obj P) []string
}

// create makes a PrepareCreate that drops features which are off, and then does the rest.
func (t templated[P]) create(rest func(context.Context, P)) func(context.Context, P) {
	return func(ctx context.Context, obj P) {
		if template := t.template(obj); template != nil {
			podspec.DropDisabled(&template.Spec, nil)
		}
		rest(ctx, obj)
	}
}

// update makes a PrepareUpdate in the same way.
func (t templated[P]) update(rest func(context.Context, P, P)) func(context.Context, P, P) {
	return func(ctx context.Context, new, old P) {
		if template := t.template(new); template != nil {
			var was *corev1.PodSpec
			if before := t.template(old); before != nil {
				was = &before.Spec
			}
			podspec.DropDisabled(&template.Spec, was)
		}
		rest(ctx, new, old)
	}
}

// warnings is the Warnings of the kind.
func (t templated[P]) warnings(new, old P) []string {
	var none P
	var out []string
	switch {
	case old == none:
		if problems := utilvalidation.IsDNS1123Label(new.GetName()); t.naming && len(problems) > 0 {
			out = append(out, fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, "+
				"which can result in surprising behavior; a DNS label is recommended: %v", problems))
		}
	case t.changed != nil:
		if !t.changed(new, old) {
			return nil
		}
	case new.GetGeneration() == old.GetGeneration():
		return nil
	}
	if t.more != nil {
		out = append(out, t.more(new)...)
	}
	if template := t.template(new); template != nil {
		out = append(out, podspec.TemplateWarnings(template, t.path)...)
	}
	return out
}
