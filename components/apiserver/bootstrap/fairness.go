package bootstrap

import (
	"context"
	"strconv"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	suggested "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/flowcontrol"
)

// The flow schemas and priority levels that a cluster starts with are kept as documented in
// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#maintenance-of-the-mandatory-and-suggested-configuration-objects.

var (
	flowSchemas    = schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "flowschemas"}
	priorityLevels = schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "prioritylevelconfigurations"}
)

// fairness is one of these objects.
type fairness struct {
	resource  schema.GroupResource
	object    api.Object
	mandatory bool
}

func fairnessObjects() []fairness {
	var out []fairness
	for _, set := range []struct {
		mandatory bool
		levels    []*flowcontrolv1.PriorityLevelConfiguration
		schemas   []*flowcontrolv1.FlowSchema
	}{
		{true, suggested.MandatoryPriorityLevelConfigurations, suggested.MandatoryFlowSchemas},
		{false, suggested.SuggestedPriorityLevelConfigurations, suggested.SuggestedFlowSchemas},
	} {
		for _, l := range set.levels {
			l = l.DeepCopy()
			flowcontrol.DefaultLevel(l)
			out = append(out, fairness{priorityLevels, l, set.mandatory})
		}
		for _, s := range set.schemas {
			s = s.DeepCopy()
			flowcontrol.DefaultSchema(s)
			out = append(out, fairness{flowSchemas, s, set.mandatory})
		}
	}
	return out
}

func (b *Bootstrap) fairnessSteps() []step {
	var steps []step
	for _, f := range fairnessObjects() {
		steps = append(steps, step{f.resource.Resource + " " + f.object.GetName(), func(ctx context.Context) error {
			return b.ensureFairness(ctx, f)
		}})
	}
	return append(steps, step{"flow control objects of other releases", b.forgetFairness})
}

// keepFairness takes all these steps again.
func (b *Bootstrap) keepFairness(ctx context.Context) error { return takeAll(ctx, b.fairnessSteps()) }

// ensureFairness creates the object, or restores it unless a user took it over.
func (b *Bootstrap) ensureFairness(ctx context.Context, want fairness) error {
	first := want.object.DeepCopyObject().(api.Object)
	first.SetAnnotations(map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"})
	return b.writer.write(ctx, want.resource, first, func(obj api.Object) bool {
		said, ok := autoUpdate(obj)
		// Without the annotation, a change of the spec counts as a takeover.
		keep := want.mandatory || ok && said || !ok && obj.GetGeneration() == 1
		annotated := (!ok || said != keep) &&
			annotate(obj, flowcontrolv1.AutoUpdateAnnotationKey, strconv.FormatBool(keep))
		return keep && setFairness(obj, want.object) || annotated
	})
}

// autoUpdate is what the annotation says about whether the system looks after the object, if it says anything that can
// be understood.
func autoUpdate(obj api.Object) (keep, ok bool) {
	keep, err := strconv.ParseBool(obj.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	return keep, err == nil
}

func annotate(obj api.Object, key, value string) (changed bool) {
	annotations := obj.GetAnnotations()
	if annotations[key] == value {
		return false
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
	return true
}

// setFairness gives obj the spec of want. What is exempt may be given a share of its own by administrators.
func setFairness(obj, want api.Object) (changed bool) {
	switch obj := obj.(type) {
	case *flowcontrolv1.FlowSchema:
		spec := want.(*flowcontrolv1.FlowSchema).Spec.DeepCopy()
		changed = !equality.Semantic.DeepEqual(obj.Spec, *spec)
		obj.Spec = *spec
	case *flowcontrolv1.PriorityLevelConfiguration:
		spec := want.(*flowcontrolv1.PriorityLevelConfiguration).Spec.DeepCopy()
		if spec.Exempt != nil && obj.Spec.Exempt != nil {
			spec.Exempt = obj.Spec.Exempt
		}
		changed = !equality.Semantic.DeepEqual(obj.Spec, *spec)
		obj.Spec = *spec
	}
	return changed
}

// forgetFairness removes objects that an other release brought and this one doesn't know.
func (b *Bootstrap) forgetFairness(ctx context.Context) error {
	known := sets.New[string]()
	for _, f := range fairnessObjects() {
		known.Insert(f.resource.Resource + "/" + f.object.GetName())
	}
	for _, resource := range []schema.GroupResource{flowSchemas, priorityLevels} {
		list, err := b.writer.objects.List(ctx, resource, "")
		if err != nil {
			return err
		}
		for _, obj := range list {
			if keep, ok := autoUpdate(obj); known.Has(resource.Resource+"/"+obj.GetName()) || !ok || !keep {
				continue
			}
			if err := b.writer.objects.Delete(ctx, resource, "", obj.GetName(), obj.GetUID()); err != nil &&
				!apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}
