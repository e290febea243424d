package registry

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// attributes describe one write to admission. One value serves both halves, as annotations and re-invocation want it.
type attributes struct {
	operation admission.Operation
	options   runtime.Object
	dryRun    bool
	// name is that of a new object as it was sent: it stays, whatever admission makes of it. "" for one that is
	// generated.
	name string
	// mayCreate asks whether the user may create, where that is what another write turned into; nil if it is what was
	// asked for.
	mayCreate func(ctx context.Context) error
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

func (w Writer) record(a attributes, obj, old runtime.Object) admission.Attributes {
	name, namespace := cmp.Or(w.Name, a.name), w.Namespace
	if o, ok := obj.(api.Object); ok && name == "" && o != nil {
		name = o.GetName()
	}
	switch {
	case w.Verb == "deletecollection":
		name = "" // as upstream: that is what the request names
	case w.Resource == namespaces:
		namespace = name // a namespace is in itself
	}
	return admission.NewAttributesRecord(
		obj, old, w.GVK, namespace, name, w.GVR, w.subresource(), a.operation, a.options, a.dryRun, w.User)
}

// mutate lets admission change obj, which the caller owns.
func (w Writer) mutate(ctx context.Context, a attributes, obj, old runtime.Object) error {
	chain, ok := w.registry.config.Admission.(admission.MutationInterface)
	if !ok || !chain.Handles(a.operation) {
		return nil
	}
	accessor, hasMeta := obj.(api.Object)
	if !hasMeta {
		return chain.Admit(ctx, w.record(a, obj, old), w.registry.objects)
	}
	before := accessor.GetManagedFields()
	seen := w.record(a, obj, old)
	if err := chain.Admit(ctx, seen, w.registry.objects); err != nil {
		return err
	}
	w.MayHaveUnknownFields = w.MayHaveUnknownFields || seen.GetReinvocationContext().ShouldReinvoke()
	after := accessor.GetManagedFields()
	if sameEntries(before, after) {
		return nil
	}
	if err := managedfields.ValidateManagedFields(after); err != nil {
		accessor.SetManagedFields(before)
		warn(ctx, ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated"+
			" mutating admission controller; please fix your requests: "+err.Error())
	}
	return nil
}

// sameEntries reports whether b is a as it was, untouched.
func sameEntries(a, b []metav1.ManagedFieldsEntry) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// validate lets admission refuse. It sees the objects that will be stored, and must not change them.
func (w Writer) validate(ctx context.Context, a attributes, obj, old runtime.Object) error {
	chain, ok := w.registry.config.Admission.(admission.ValidationInterface)
	if !ok || !chain.Handles(a.operation) {
		return nil
	}
	return chain.Validate(ctx, w.record(a, obj, old), w.registry.objects)
}

// AdmitConnect shows the parameters of a connection to admission, which may change them.
func (w Writer) AdmitConnect(ctx context.Context, options runtime.Object) error {
	ep := *w.Endpoint
	ep.GVK = options.GetObjectKind().GroupVersionKind()
	seen := Writer{Reader{&ep, w.Request}}
	a := attributes{operation: admission.Connect}
	if err := seen.mutate(ctx, a, options, nil); err != nil {
		return err
	}
	return seen.validate(ctx, a, options, nil)
}
