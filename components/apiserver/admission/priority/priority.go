// Package priority turns the name of a pod's priority class into a number, and keeps the default class unique
// (https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/).
package priority

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "Priority"

var classes = schedulingv1.Resource("priorityclasses")

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
}

var (
	_ admission.MutationInterface   = &Plugin{}
	_ admission.ValidationInterface = &Plugin{}
)

// New returns the plug-in.
func New(reader objects.Reader) *Plugin {
	// It has nothing to say to deletions, but upstream's is measured at them.
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete), objects: reader}
}

// Admit computes the priority of new pods, and keeps that of pods whose writer left it out.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" ||
		a.GetOperation() == admission.Delete {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest("resource was marked with kind Pod but was unable to be converted")
	}
	if a.GetOperation() == admission.Update {
		if old, ok := a.GetOldObject().(*corev1.Pod); ok {
			keep(pod, old)
		}
		return nil
	}
	return p.set(ctx, a, pod)
}

func keep(pod, old *corev1.Pod) {
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = old.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
}

func (p *Plugin) set(ctx context.Context, a admission.Attributes, pod *corev1.Pod) error {
	value, preemption := int32(0), corev1.PreemptLowerPriority
	if pod.Spec.PriorityClassName == "" {
		class, err := p.defaultClass(ctx)
		if err != nil {
			return fmt.Errorf("error occurred while retrieving default priority class: %w", err)
		}
		if class != nil {
			pod.Spec.PriorityClassName = class.Name
			value, preemption = class.Value, ptr.Deref(class.PreemptionPolicy, preemption)
		}
	} else {
		class, err := p.find(ctx, pod.Spec.PriorityClassName)
		if apierrors.IsNotFound(err) {
			return admission.NewForbidden(a,
				fmt.Errorf("no PriorityClass with name %v was found", pod.Spec.PriorityClassName))
		} else if err != nil {
			return fmt.Errorf("failed to resolve PriorityClass with name %s: %w", pod.Spec.PriorityClassName, err)
		}
		value, preemption = class.Value, ptr.Deref(class.PreemptionPolicy, preemption)
	}
	if pod.Spec.Priority != nil && *pod.Spec.Priority != value {
		return admission.NewForbidden(a,
			fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; "+
				"priority admission controller computed %d from the given PriorityClass name", *pod.Spec.Priority,
				value))
	}
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy != preemption {
		return admission.NewForbidden(a,
			fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "+
				"priority admission controller computed %s from the given PriorityClass name",
				*pod.Spec.PreemptionPolicy,
				preemption))
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &value, &preemption
	return nil
}

func (p *Plugin) find(ctx context.Context, name string) (*schedulingv1.PriorityClass, error) {
	class, err := objects.As[*schedulingv1.PriorityClass](p.objects.Get(ctx, classes, "", name))
	if apierrors.IsNotFound(err) {
		return objects.As[*schedulingv1.PriorityClass](p.objects.Live(ctx, classes, "", name))
	}
	return class, err
}

// defaultClass returns the default class, the lowest should there be several, or nil.
func (p *Plugin) defaultClass(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	list, err := objects.ListAs[*schedulingv1.PriorityClass](p.objects.List(ctx, classes, ""))
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	var found *schedulingv1.PriorityClass
	for _, class := range list {
		if class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	return found, nil
}

// Validate refuses a second default class.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != classes || a.GetSubresource() != "" || a.GetOperation() == admission.Delete {
		return nil
	}
	class, ok := a.GetObject().(*schedulingv1.PriorityClass)
	if !ok {
		return apierrors.NewBadRequest("resource was marked with kind PriorityClass but was unable to be converted")
	}
	if !class.GlobalDefault {
		return nil
	}
	existing, err := p.defaultClass(ctx)
	if err != nil {
		return fmt.Errorf("failed to get default priority class: %w", err)
	}
	if existing != nil && (a.GetOperation() == admission.Create || existing.Name != class.Name) {
		return admission.NewForbidden(a,
			fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", existing.Name))
	}
	return nil
}
