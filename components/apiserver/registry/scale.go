package registry

import (
	"context"
	"fmt"
	"math"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Scale shows a stored object as a Scale.
func (ep *Endpoint) Scale(e *cache.Entry) (*autoscalingv1.Scale, error) {
	e, err := ep.ToWork(e)
	if err != nil {
		return nil, err
	}
	if err := ep.hasScale(e.Object); err != nil {
		return nil, err
	}
	if s := ep.Sub.Scale; s.Has != nil && !s.Has(e.Object) {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", s.Field))
	}
	return ep.scaleOf(e.Object), nil
}

// scaleMeta is what a Scale says of itself.
var scaleMeta = metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}

// scaleOf shows an object as a Scale.
func (ep *Endpoint) scaleOf(obj api.Object) *autoscalingv1.Scale {
	out := &autoscalingv1.Scale{TypeMeta: scaleMeta, ObjectMeta: metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
	}}
	out.Spec, out.Status = ep.Sub.Scale.Get(obj)
	return out
}

// hasScale tells why an object can't be shown as a Scale; nil if it can.
func (ep *Endpoint) hasScale(obj api.Object) error {
	if check := ep.Sub.Scale.Check; check != nil {
		return check(obj)
	}
	return nil
}

// noReplicas stands in a Scale for what its object doesn't say, so that a change which says nothing of it either is
// told from one to none at all.
const noReplicas = math.MinInt32

// ScaleChange is a write to an object through its Scale.
type ScaleChange struct {
	// Next makes the wanted Scale of the live one, which belongs to it, and tracks the difference by fields. It is
	// called again when another writer was faster.
	Next func(live *autoscalingv1.Scale, fields *fieldmanager.Manager) (*autoscalingv1.Scale, error)
	// Options are those of the verb, for admission.
	Options runtime.Object
	DryRun  []string
}

// UpdateScale changes the object that the request names through its Scale.
func (w Writer) UpdateScale(ctx context.Context, ch ScaleChange) (*cache.Entry, error) {
	e, _, err := w.Update(ctx, Change{
		Options: ch.Options, DryRun: ch.DryRun,
		Next: func(current *cache.Entry) (api.Object, error) {
			return w.rescaled(ctx, ch, current.Object)
		},
	})
	return e, err
}

// rescaled is parent as its wanted Scale makes it.
func (w Writer) rescaled(ctx context.Context, ch ScaleChange, parent api.Object) (api.Object, error) {
	if err := w.hasScale(parent); err != nil {
		return nil, err
	}
	// Managed fields move between the object and its Scale.
	managed := managedfields.NewScaleHandler(parent.GetManagedFields(), w.Version.GroupVersion,
		managedfields.ResourcePathMappings(w.Sub.Scale.ReplicasPath))
	live := w.scaleOf(parent)
	if has := w.Sub.Scale.Has; has != nil && !has(parent) {
		live.Spec.Replicas = noReplicas
	}
	var err error
	if live.ManagedFields, err = managed.ToSubresource(); err != nil {
		return nil, err
	}
	wanted, err := ch.Next(live.DeepCopy(), w.fields)
	if err != nil {
		return nil, err
	}
	a := attributes{operation: admission.Update, options: ch.Options, dryRun: IsDryRun(ch.DryRun)}
	if err := w.mutate(ctx, a, wanted, live); err != nil {
		return nil, err
	}
	if err := w.checkScale(wanted, live, a.dryRun); err != nil {
		return nil, err
	}
	obj := copyOf(parent)
	if err := w.Sub.Scale.Set(obj, wanted.Spec.Replicas); err != nil {
		return nil, err
	}
	if wanted.ResourceVersion != "" {
		obj.SetResourceVersion(wanted.ResourceVersion)
	}
	entries, err := managed.ToParent(wanted.ManagedFields)
	if err != nil {
		return nil, err
	}
	obj.SetManagedFields(entries)
	return obj, nil
}

// checkScale checks a wanted Scale against the live one.
func (w Writer) checkScale(wanted, live *autoscalingv1.Scale, dryRun bool) error {
	if err := w.SameName(wanted); err != nil {
		return err
	}
	if wanted.UID != "" && wanted.UID != live.UID {
		if err := w.otherScale(wanted.UID, live.UID, dryRun); err != nil {
			return err
		}
	}
	if field := w.Sub.Scale.Field; field != "" && wanted.Spec.Replicas == noReplicas {
		return apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", field))
	}
	if wanted.Spec.Replicas < 0 && w.Kind.Custom == nil { // of custom resources the schema decides
		return apierrors.NewInvalid(schema.GroupKind{Group: "autoscaling", Kind: "Scale"}, w.Name,
			field.ErrorList{field.Invalid(
				field.NewPath("spec", "replicas"), wanted.Spec.Replicas, "must be greater than or equal to 0")})
	}
	return nil
}

// otherScale is the answer to the Scale of another object: an update means the object by its UID, a patch may only not
// change it, and of custom resources, where it makes no difference, not even that is asked.
func (w Writer) otherScale(given, has types.UID, dryRun bool) error {
	switch {
	case w.Verb != "patch":
		return w.otherUID(given, has, dryRun)
	case w.Kind.Custom == nil:
		resource := schema.GroupResource{Group: w.Resource.Group, Resource: w.Resource.Resource + "/" + w.Sub.Name}
		//lint:ignore ST1005 the text is upstream's
		return apierrors.NewConflict(resource, w.Name, fmt.Errorf(
			"Precondition failed: UID in precondition: %v, UID in object meta: %v", given, has))
	}
	return nil
}
