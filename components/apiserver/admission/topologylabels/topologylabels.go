// Package topologylabels gives pods the zone and region of the node that they are bound to (KEP-4742).
package topologylabels

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "PodTopologyLabels"

var labels = []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
}

var _ admission.MutationInterface = &Plugin{}

// New returns the plug-in.
func New(reader objects.Reader) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create), objects: reader}
}

// Admit labels bindings, whose labels go to the pod, and pods that are made on a node.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil // nor is what is posted to bindings labelled, as with upstream
	}
	switch obj := a.GetObject().(type) {
	case *corev1.Binding:
		if a.GetSubresource() == "binding" && obj.Target.Kind == "Node" {
			return p.label(ctx, a, obj, obj.Target.Name)
		}
	case *corev1.Pod:
		if a.GetSubresource() == "" && obj.Spec.NodeName != "" {
			return p.label(ctx, a, obj, obj.Spec.NodeName)
		}
	}
	return nil
}

func (p *Plugin) label(ctx context.Context, a admission.Attributes, obj metav1.Object, nodeName string) error {
	node, err := objects.As[*corev1.Node](p.objects.Get(ctx, corev1.Resource("nodes"), "", nodeName))
	if apierrors.IsNotFound(err) {
		return nil // it may come to be; there is nothing to tell of it yet
	}
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("reading node %s: %w", nodeName, err))
	}
	for _, label := range labels {
		value, ok := node.Labels[label]
		if !ok {
			continue
		}
		all := obj.GetLabels()
		if all == nil {
			all = map[string]string{}
		}
		all[label] = value
		obj.SetLabels(all)
	}
	return nil
}
