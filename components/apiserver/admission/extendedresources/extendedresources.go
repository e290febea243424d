// Package extendedresources lets pods onto the nodes that are kept for the devices they ask for
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#extendedresourcetoleration).
package extendedresources

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/internal/resources"
)

// Name is the plug-in's.
const Name = "ExtendedResourceToleration"

// Plugin implements the admission.
type Plugin struct{ *admission.Handler }

var _ admission.MutationInterface = Plugin{}

// New returns the plug-in.
func New() Plugin { return Plugin{admission.NewHandler(admission.Create, admission.Update)} }

// Admit adds, for each extended resource that the pod asks for, a toleration of the taint of that name.
func (Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil
	}
	asked := map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for name := range c.Resources.Requests {
			if resources.Extended(name) {
				asked[string(name)] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		tolerate(pod, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule})
	}
	return nil
}

// tolerate adds a toleration, or takes the place of one that differs in its time only.
func tolerate(pod *corev1.Pod, t corev1.Toleration) {
	for i := range pod.Spec.Tolerations {
		if pod.Spec.Tolerations[i].MatchToleration(&t) {
			pod.Spec.Tolerations[i] = t
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
}
