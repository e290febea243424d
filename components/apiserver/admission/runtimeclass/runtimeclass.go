// Package runtimeclass writes into pods what their runtime class costs, and where it runs
// (https://kubernetes.io/docs/concepts/containers/runtime-class/).
package runtimeclass

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/admission/tolerations"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "RuntimeClass"

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
	return &Plugin{Handler: admission.NewHandler(admission.Create), objects: reader}
}

// prepare returns the pod and its class; the pod is nil when there is nothing to do, the class when it names none.
func (p *Plugin) prepare(ctx context.Context, a admission.Attributes) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil, nil, nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil, nil, apierrors.NewBadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	if pod.Spec.RuntimeClassName == nil {
		return pod, nil, nil
	}
	if *pod.Spec.RuntimeClassName == "" {
		return nil, nil, errors.New("resource name may not be empty")
	}
	classes := nodev1.Resource("runtimeclasses")
	class, err := objects.As[*nodev1.RuntimeClass](p.objects.Get(ctx, classes, "", *pod.Spec.RuntimeClassName))
	if apierrors.IsNotFound(err) {
		class, err = objects.As[*nodev1.RuntimeClass](p.objects.Live(ctx, classes, "", *pod.Spec.RuntimeClassName))
	}
	if apierrors.IsNotFound(err) {
		return nil, nil, admission.NewForbidden(a,
			fmt.Errorf("pod rejected: RuntimeClass %q not found", *pod.Spec.RuntimeClassName))
	}
	return pod, class, err
}

// Admit sets overhead, node selector and tolerations.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.prepare(ctx, a)
	if err != nil || pod == nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.NewForbidden(a,
				fmt.Errorf("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
		}
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	return schedule(a, pod, class.Scheduling)
}

func schedule(a admission.Attributes, pod *corev1.Pod, s *nodev1.Scheduling) error {
	if len(s.NodeSelector) > 0 && pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	for k, v := range s.NodeSelector {
		if have, ok := pod.Spec.NodeSelector[k]; ok && have != v {
			return admission.NewForbidden(a,
				fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", k,
					v, k, have))
		}
		pod.Spec.NodeSelector[k] = v
	}
	pod.Spec.Tolerations = tolerations.Merge(slices.Concat(pod.Spec.Tolerations, s.DeepCopy().Tolerations))
	return nil
}

// Validate makes sure that the overhead is the class's.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.prepare(ctx, a)
	if err != nil || pod == nil {
		return err
	}
	switch {
	case class != nil && class.Overhead != nil:
		if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.NewForbidden(a,
				fmt.Errorf("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
		}
	case pod.Spec.Overhead != nil:
		return admission.NewForbidden(a,
			fmt.Errorf("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}
