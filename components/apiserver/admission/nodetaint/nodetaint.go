// Package nodetaint keeps pods off new nodes until they are ready
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#taintnodesbycondition).
package nodetaint

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// Name is the plug-in's.
const Name = "TaintNodesByCondition"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
}

var _ admission.MutationInterface = &Plugin{}

// New returns the plug-in.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create)} }

// Admit taints new nodes as not ready; the node lifecycle controller takes the taint away.
func (*Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("nodes") || a.GetSubresource() != "" {
		return nil
	}
	node, ok := a.GetObject().(*corev1.Node)
	if !ok {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].MatchTaint(&taint) {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, taint)
	return nil
}
