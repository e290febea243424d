package handlers

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// attributes describe one write to admission. One value serves both halves, as annotations and re-invocation want it.
type attributes struct {
	operation admission.Operation
	options   runtime.Object
	dryRun    bool
	// name is that of a new object as it was sent: it stays, whatever admission makes of it. "" for one that is generated.
	name string
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

func (c *call) user() user.Info {
	u, _ := request.UserFrom(c.ctx)
	return u
}

func (c *call) record(a attributes, obj, old runtime.Object) admission.Attributes {
	sub := ""
	if c.sub != nil {
		sub = c.sub.Name
	}
	name, namespace := cmp.Or(c.name, a.name), c.namespace
	if o, ok := obj.(kinds.Object); ok && name == "" && o != nil {
		name = o.GetName()
	}
	switch {
	case c.info.Verb == "deletecollection":
		name = "" // as upstream: that is what the request names
	case c.resource == namespaces:
		namespace = name // a namespace is in itself
	}
	return admission.NewAttributesRecord(obj, old, c.gvk, namespace, name, c.gvr, sub, a.operation, a.options, a.dryRun, c.user())
}

// mutate lets admission change obj, which the caller owns.
func (c *call) mutate(a attributes, obj, old runtime.Object) error {
	chain, ok := c.api.config.Admission.(admission.MutationInterface)
	if !ok || !chain.Handles(a.operation) {
		return nil
	}
	ctx := c.ctx
	accessor, hasMeta := obj.(kinds.Object)
	if !hasMeta {
		return chain.Admit(ctx, c.record(a, obj, old), c.api.objects)
	}
	before := accessor.GetManagedFields()
	seen := c.record(a, obj, old)
	if err := chain.Admit(ctx, seen, c.api.objects); err != nil {
		return err
	}
	c.strange = c.strange || seen.GetReinvocationContext().ShouldReinvoke()
	after := accessor.GetManagedFields()
	if sameEntries(before, after) {
		return nil
	}
	if err := managedfields.ValidateManagedFields(after); err != nil {
		accessor.SetManagedFields(before)
		warning.AddWarning(ctx, "", ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: "+err.Error())
	}
	return nil
}

// sameEntries reports whether b is a as it was, untouched.
func sameEntries(a, b []metav1.ManagedFieldsEntry) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// validate lets admission refuse. It sees the objects that will be stored, and must not change them.
func (c *call) validate(ctx context.Context, a attributes, obj, old runtime.Object) error {
	chain, ok := c.api.config.Admission.(admission.ValidationInterface)
	if !ok || !chain.Handles(a.operation) {
		return nil
	}
	return chain.Validate(ctx, c.record(a, obj, old), c.api.objects)
}
