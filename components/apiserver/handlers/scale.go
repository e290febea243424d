package handlers

import (
	"fmt"
	"math"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/show"
	"quintet.dev/quintet/components/apiserver/serial"
)

// scaleOf shows an object as a Scale.
func (c *call) scaleOf(obj kinds.Object) *autoscalingv1.Scale {
	out := &autoscalingv1.Scale{TypeMeta: scaleMeta, ObjectMeta: metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
	}}
	out.Spec, out.Status = c.sub.Scale.Get(obj)
	return out
}

// readable tells why an object can't be shown as a Scale; nil if it can.
func (c *call) readable(obj kinds.Object) error {
	if check := c.sub.Scale.Check; check != nil {
		return check(obj)
	}
	return nil
}

// noReplicas stands in a Scale for what its object doesn't say, so that a change which says nothing of it either is told from one to
// none at all.
const noReplicas = math.MinInt32

// scaleFields moves managed fields between an object and its Scale.
func (c *call) scaleFields(obj kinds.Object) *managedfields.ScaleHandler {
	return managedfields.NewScaleHandler(obj.GetManagedFields(), c.version.GroupVersion,
		managedfields.ResourcePathMappings(c.sub.Scale.ReplicasPath))
}

// updateScale serves PUT.
func (c *call) updateScale(o *metav1.UpdateOptions, body []byte, media serial.MediaType) error {
	wanted := &autoscalingv1.Scale{}
	if err := c.decodeBytes(body, media, wanted, c.gvk, o.FieldValidation); err != nil {
		return err
	}
	c.auditBody(wanted, c.gvk)
	if err := c.sameName(wanted); err != nil {
		return err
	}
	return c.runScale(o.DryRun, attributes{operation: admission.Update, options: o, dryRun: isDryRun(o.DryRun)},
		func(live *autoscalingv1.Scale, fields *managedfields.FieldManager) (*autoscalingv1.Scale, error) {
			return fields.UpdateNoErrors(live, wanted.DeepCopy(), c.managerName(o.FieldManager)).(*autoscalingv1.Scale), nil
		})
}

// patchScale serves PATCH, apply included.
func (p *patcher) patchScale() error {
	var applied *unstructured.Unstructured
	var malformed error // which is told of only where there is something to be scaled
	if p.kind == types.ApplyYAMLPatchType {
		applied, malformed = p.readApply()
	}
	a := attributes{operation: admission.Update, options: updateOf(p.options), dryRun: isDryRun(p.options.DryRun)}
	return p.runScale(p.options.DryRun, a, func(live *autoscalingv1.Scale, fields *managedfields.FieldManager) (*autoscalingv1.Scale, error) {
		if malformed != nil {
			return nil, malformed
		}
		manager := p.managerName(p.options.FieldManager)
		if applied != nil {
			force := p.options.Force != nil && *p.options.Force
			out, err := fields.Apply(live, applied.DeepCopy(), manager, force)
			if err == nil {
				err = p.strictApply()
			}
			if err != nil {
				return nil, err
			}
			return out.(*autoscalingv1.Scale), nil
		}
		wanted := &autoscalingv1.Scale{}
		if err := p.patchedScale(live, wanted); err != nil {
			return nil, err
		}
		return fields.UpdateNoErrors(live, wanted, manager).(*autoscalingv1.Scale), nil
	})
}

func (p *patcher) patchedScale(live, into *autoscalingv1.Scale) error {
	if p.kind == types.StrategicMergePatchType {
		return p.strategic(live, into)
	}
	body, err := serial.Body(live, p.gvk, serial.JSON)
	if err != nil {
		return err
	}
	return p.textualScale(body, into)
}

// runScale changes an object through its Scale.
func (c *call) runScale(dryRun []string, a attributes, next func(live *autoscalingv1.Scale, fields *managedfields.FieldManager) (*autoscalingv1.Scale, error)) error {
	fields, err := c.fields()
	if err != nil {
		return err
	}
	defer fields.close()
	e, _, err := c.run(change{options: a.options, dryRun: dryRun, next: func(current *cache.Entry) (kinds.Object, error) {
		parent := current.Object
		if err := c.readable(parent); err != nil {
			return nil, err
		}
		books := c.scaleFields(parent)
		live := c.scaleOf(parent)
		if has := c.sub.Scale.Has; has != nil && !has(parent) {
			live.Spec.Replicas = noReplicas
		}
		if live.ManagedFields, err = books.ToSubresource(); err != nil {
			return nil, err
		}
		wanted, err := next(live.DeepCopy(), fields.FieldManager)
		if err != nil {
			return nil, err
		}
		if err := c.mutate(a, wanted, live); err != nil {
			return nil, err
		}
		if err := c.checkScale(wanted, live, a.dryRun); err != nil {
			return nil, err
		}
		obj := copyOf(parent)
		if err := c.sub.Scale.Set(obj, wanted.Spec.Replicas); err != nil {
			return nil, err
		}
		if wanted.ResourceVersion != "" {
			obj.SetResourceVersion(wanted.ResourceVersion)
		}
		managed, err := books.ToParent(wanted.ManagedFields)
		if err != nil {
			return nil, err
		}
		obj.SetManagedFields(managed)
		return obj, nil
	}})
	if err != nil {
		return err
	}
	return c.stored(http.StatusOK, e)
}

func (c *call) checkScale(wanted, live *autoscalingv1.Scale, dryRun bool) error {
	if err := c.sameName(wanted); err != nil {
		return err
	}
	if wanted.UID != "" && wanted.UID != live.UID {
		if err := c.otherScale(wanted.UID, live.UID, dryRun); err != nil {
			return err
		}
	}
	if field := c.sub.Scale.Field; field != "" && wanted.Spec.Replicas == noReplicas {
		return apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", field))
	}
	if wanted.Spec.Replicas < 0 && c.kind.Custom == nil { // of custom resources the schema decides
		return apierrors.NewInvalid(schema.GroupKind{Group: "autoscaling", Kind: "Scale"}, c.name, field.ErrorList{field.Invalid(
			field.NewPath("spec", "replicas"), wanted.Spec.Replicas, "must be greater than or equal to 0")})
	}
	return nil
}

// otherScale is the answer to the Scale of another object: an update means the object by its UID, a patch may only not change it, and of
// custom resources, where it makes no difference, not even that is asked.
func (c *call) otherScale(given, has types.UID, dryRun bool) error {
	switch {
	case c.verb != "patch":
		return c.otherUID(given, has, dryRun)
	case c.kind.Custom == nil:
		resource := schema.GroupResource{Group: c.resource.Group, Resource: c.resource.Resource + "/" + c.sub.Name}
		//lint:ignore ST1005 the text is upstream's
		return apierrors.NewConflict(resource, c.name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", given, has))
	}
	return nil
}

// customScaleColumns are those of a Scale of a custom resource.
func customScaleColumns() []metav1.TableColumnDefinition {
	meta := metav1.ObjectMeta{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: meta["name"]},
		{Name: "Desired", Type: "integer", Description: "Number of desired replicas"},
		{Name: "Available", Type: "integer", Description: "Number of actual replicas"},
		{Name: "Age", Type: "date", Description: meta["creationTimestamp"]},
	}
}

// scaleColumns and scaleRow show a Scale in a Table.
func scaleColumns() []metav1.TableColumnDefinition {
	meta, spec, status := metav1.ObjectMeta{}.SwaggerDoc(), autoscalingv1.ScaleSpec{}.SwaggerDoc(), autoscalingv1.ScaleStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Description: meta["name"]},
		{Name: "Desired", Type: "integer", Description: spec["replicas"]},
		{Name: "Available", Type: "integer", Description: status["replicas"]},
		{Name: "Age", Type: "string", Description: meta["creationTimestamp"]},
	}
}

func scaleRow(scale *autoscalingv1.Scale) []any {
	return []any{scale.Name, scale.Spec.Replicas, scale.Status.Replicas, show.Age(scale.CreationTimestamp)}
}

// customScaleRow has no number where none is wanted: columns of custom resources show what there is in JSON, where that is left out.
func customScaleRow(scale *autoscalingv1.Scale) []any {
	cells := scaleRow(scale)
	if scale.Spec.Replicas == 0 {
		cells[1] = nil
	}
	return cells
}
