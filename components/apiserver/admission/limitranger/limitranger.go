// Package limitranger applies the LimitRanges of a namespace: defaults for containers, and bounds for containers, pods
// and claims (https://kubernetes.io/docs/concepts/policy/limit-range/).
package limitranger

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "LimitRanger"

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
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), objects: reader}
}

// Admit fills in the defaults of new pods, and of those whose resources change.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok || !limited(a) {
		return nil
	}
	ranges, err := p.ranges(ctx, a)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		setDefaults(pod, r)
	}
	return nil
}

// Validate checks the bounds.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !limited(a) {
		return nil
	}
	var check func(*corev1.LimitRangeItem) []error
	switch obj := a.GetObject().(type) {
	case *corev1.Pod:
		check = func(item *corev1.LimitRangeItem) []error { return checkPod(obj, item) }
	case *corev1.PersistentVolumeClaim:
		check = func(item *corev1.LimitRangeItem) []error { return checkClaim(obj, item) }
	default:
		return nil
	}
	ranges, err := p.ranges(ctx, a)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		var errs []error
		for i := range r.Spec.Limits {
			errs = append(errs, check(&r.Spec.Limits[i])...)
		}
		if len(errs) > 0 {
			return admission.NewForbidden(a, utilerrors.NewAggregate(errs))
		}
	}
	return nil
}

func (p *Plugin) ranges(ctx context.Context, a admission.Attributes) ([]*corev1.LimitRange, error) {
	list, err := objects.ListAs[*corev1.LimitRange](
		p.objects.List(ctx, corev1.Resource("limitranges"), a.GetNamespace()))
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, admission.NewForbidden(a,
			fmt.Errorf("unable to %s %v at this time because there was an error enforcing limit ranges: %w",
				a.GetOperation(), a.GetResource(), err))
	}
	return list, nil
}

// limited selects the requests that limit ranges apply to. The resources of a pod change only through the subresource
// resize. Objects that are being deleted are exempt: their updates must succeed, whatever the limits are now.
func limited(a admission.Attributes) bool {
	create := a.GetOperation() == admission.Create
	switch a.GetObject().(type) {
	case *corev1.Pod:
		if resize := a.GetSubresource() == "resize"; create == resize || !resize && a.GetSubresource() != "" {
			return false
		}
	case *corev1.PersistentVolumeClaim:
		if a.GetSubresource() != "" {
			return false
		}
	default:
		return false
	}
	old, ok := a.GetOldObject().(metav1.Object)
	return !ok || old.GetDeletionTimestamp() == nil
}
