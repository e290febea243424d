package handlers

import (
	"cmp"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// books returns those of the writes through an endpoint that need no structured merge; nil if there are none. They are opened
// when the first write needs them.
func (t *tracker) books(d *endpoint) func() *fieldmanager.Books {
	if d.kind.Custom != nil || d.kind.Answer != nil || d.post != nil || d.version.ToHub != nil || d.gvk != d.version.WithKind(d.kind.Name) {
		return nil
	}
	return sync.OnceValue(func() *fieldmanager.Books {
		goType := reflect.TypeOf(d.kind.HubVersion().New())
		if reflect.TypeOf(d.version.New()) != goType {
			return nil
		}
		of, err := t.types.of(d.gvk)
		if err != nil {
			return nil
		}
		version := d.gvk.GroupVersion().String()
		sub := ""
		if d.sub != nil {
			sub = d.sub.Name
		}
		return fieldmanager.New(t.types.planner, goType.Elem(), of, version, sub, filterOf(d)[fieldpath.APIVersion(version)])
	})
}

// booked are the managed fields of obj, if that can be told without structured merge. Books are dated by the machine's clock, as
// structured merge dates those of its own: they are ordered by their times, so that two clocks would mix them up.
func (c *call) booked(old, obj kinds.Object, manager string) (_ []metav1.ManagedFieldsEntry, ok bool) {
	if c.books == nil {
		return nil, false
	}
	b := c.books()
	if b == nil {
		return nil, false
	}
	return b.Update(old, obj, c.managerName(manager), time.Now())
}

// applied is live with config applied to it, both of which belong to it.
func (d *endpoint) applied(live kinds.Object, config *unstructured.Unstructured, manager string, force bool) (runtime.Object, error) {
	d.disown(live)
	repeats := d.repeats(live, config, manager)
	if repeats != nil {
		changes, ok := repeats.Apply(live, config.Object, cmp.Or(manager, "unknown"), time.Now())
		if changes && d.version.Default != nil {
			d.version.Default(live)
		}
		if ok {
			return live, nil
		}
	}
	fields, err := d.fields()
	if err != nil {
		return nil, err
	}
	defer fields.close()
	if fields.typer != nil {
		fields.typer.bare = true
		d.forget(fields.typer, live, config, cmp.Or(manager, "unknown"))
	}
	out, err := fields.Apply(live, config, manager, force)
	if err != nil && !apierrors.IsConflict(err) && fields.typer != nil {
		fields.typer.checks = true // which finds the fault where upstream does
		out, err = fields.Apply(live, config, manager, force)
	}
	if obj, ok := out.(kinds.Object); ok && err == nil && repeats != nil {
		repeats.Applied(obj, config.Object, cmp.Or(manager, "unknown"))
	}
	return out, err
}

// repeats are the books that can tell of applies that repeat others; nil if there are none. Where kubectl has applied on the
// client's side before, structured merge's manager does more than merge.
func (d *endpoint) repeats(live kinds.Object, config *unstructured.Unstructured, manager string) *fieldmanager.Books {
	if d.books == nil || config.GroupVersionKind() != d.gvk || manager == "kubectl" && live.GetAnnotations()[corev1.LastAppliedConfigAnnotation] != "" {
		return nil
	}
	return d.books()
}

// forget takes out of live what the manager has applied before, if it is all applied again. Structured merge looks through the
// object several times for what isn't any more, and is to go with it.
func (d *endpoint) forget(t *typer, live kinds.Object, config *unstructured.Unstructured, manager string) {
	if d.books == nil || config.GroupVersionKind() != d.gvk {
		return
	}
	b, entries := d.books(), live.GetManagedFields()
	if b == nil {
		return
	}
	sub := ""
	if d.sub != nil {
		sub = d.sub.Name
	}
	own := func(e metav1.ManagedFieldsEntry) bool {
		return e.Operation == metav1.ManagedFieldsOperationApply && e.Manager == manager && e.Subresource == sub
	}
	i := slices.IndexFunc(entries, own)
	if i < 0 || slices.ContainsFunc(entries[i+1:], own) || entries[i].APIVersion != d.gvk.GroupVersion().String() {
		return
	}
	of, err := t.ObjectToTyped(config)
	if err != nil {
		return
	}
	t.config = made{of, config}
	if set, err := of.ToFieldSet(); err == nil && !fieldmanager.Blank(config.Object) && b.Covers(set, entries[i].FieldsV1) {
		entries[i].FieldsV1 = metav1.NewFieldsV1("{}")
	}
}
