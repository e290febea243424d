package handlers

import (
	"net/http"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/kinds/show"
	"quintet.dev/quintet/components/apiserver/registry"
)

// updateScale serves PUT.
func (c *call) updateScale(o *metav1.UpdateOptions, body []byte, media codec.MediaType) error {
	wanted := &autoscalingv1.Scale{}
	if err := c.in.decodeBytes(body, media, wanted, c.GVK, o.FieldValidation); err != nil {
		return err
	}
	c.in.auditBody(wanted, c.GVK)
	if err := c.SameName(wanted); err != nil {
		return err
	}
	manager := managerName(c.r, o.FieldManager)
	return c.changeScale(registry.ScaleChange{Options: o, DryRun: o.DryRun,
		Next: func(live *autoscalingv1.Scale, fields *fieldmanager.Manager) (*autoscalingv1.Scale, error) {
			next := wanted.DeepCopy()
			fields.Update(live, next, manager)
			return next, nil
		}})
}

// changeScale changes an object through its Scale.
func (c *call) changeScale(ch registry.ScaleChange) error {
	c.steps.Reach("About to store object in database")
	e, err := c.writer().UpdateScale(c.ctx, ch)
	c.steps.Reach(written(err))
	if err != nil {
		return err
	}
	return c.out.stored(http.StatusOK, e)
}

// patchScale serves PATCH, apply included.
func (p *patcher) patchScale() error {
	var applied *unstructured.Unstructured
	var malformed error // which is told of only where there is something to be scaled
	if p.kind == types.ApplyYAMLPatchType {
		applied, malformed = p.readApply()
	}
	next := func(live *autoscalingv1.Scale, fields *fieldmanager.Manager) (*autoscalingv1.Scale, error) {
		if malformed != nil {
			return nil, malformed
		}
		if applied != nil {
			force := p.options.Force != nil && *p.options.Force
			out, err := fields.Apply(live, applied, p.manager, force)
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
		fields.Update(live, wanted, p.manager)
		return wanted, nil
	}
	return p.changeScale(registry.ScaleChange{Options: updateOf(p.options), DryRun: p.options.DryRun, Next: next})
}

func (p *patcher) patchedScale(live, into *autoscalingv1.Scale) error {
	if p.kind == types.StrategicMergePatchType {
		return p.strategic(live, into)
	}
	body, err := codec.Body(live, p.GVK, codec.JSON)
	if err != nil {
		return err
	}
	return p.textualScale(body, into)
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
	meta, spec, status := metav1.ObjectMeta{}.SwaggerDoc(), autoscalingv1.ScaleSpec{}.SwaggerDoc(),
		autoscalingv1.ScaleStatus{}.SwaggerDoc()
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

// customScaleRow has no number where none is wanted: columns of custom resources show what there is in JSON, where that
// is left out.
func customScaleRow(scale *autoscalingv1.Scale) []any {
	cells := scaleRow(scale)
	if scale.Spec.Replicas == 0 {
		cells[1] = nil
	}
	return cells
}

// unreadableScale is the answer to any body that can't be decoded as a Scale of a custom resource: as upstream, it
// speaks of what the server would say more with.
func (d *decoder) unreadableScale() error {
	err := runtime.NewNotRegisteredErrForType(d.api.config.Scheme.Name(), reflect.TypeFor[autoscalingv1.Scale]())
	return apierrors.NewBadRequest(err.Error())
}
