// Package tolerationseconds lets pods stay for a while on a node that is not ready or can't be reached
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaulttolerationseconds).
package tolerationseconds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
)

const (
	// Name is the plug-in's.
	Name = "DefaultTolerationSeconds"
	// DefaultSeconds is how long pods stay unless told otherwise.
	DefaultSeconds = 300
)

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	notReady, unreachable int64
}

var _ admission.MutationInterface = &Plugin{}

// New returns the plug-in; the times are in seconds.
func New(notReady, unreachable int64) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), notReady: notReady,
		unreachable: unreachable}
}

// Admit adds the tolerations that the pod has nothing to say about.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest("expected *corev1.Pod")
	}
	for _, t := range []struct {
		key     string
		seconds int64
	}{
		{corev1.TaintNodeNotReady, p.notReady},
		{corev1.TaintNodeUnreachable, p.unreachable},
	} {
		if !tolerates(pod.Spec.Tolerations, t.key) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: t.key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To(t.seconds),
			})
		}
	}
	return nil
}

func tolerates(list []corev1.Toleration, key string) bool {
	for i := range list {
		t := &list[i]
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
