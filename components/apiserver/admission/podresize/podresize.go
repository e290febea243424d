// Package podresize refuses to resize pods beyond what their node has, or where that can't be done
// (https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/).
package podresize

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-helpers/resource"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "PodResizeValidator"

// The causes that clients find in a refusal.
const (
	ReasonNodeCapacity        metav1.CauseType = "NodeCapacity"
	ReasonUnsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
}

var _ admission.ValidationInterface = Plugin{}

// New returns the plug-in.
func New(reader objects.Reader) Plugin {
	return Plugin{admission.NewHandler(admission.Update), reader}
}

// Validate implements admission.ValidationInterface. Pods that are on no node yet may have any size.
func (p Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "resize" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	old, had := a.GetOldObject().(*corev1.Pod)
	if !ok || !had || pod.Spec.NodeName == "" || pod.Generation == old.Generation {
		return nil
	}
	node, err := objects.As[*corev1.Node](p.objects.Get(ctx, corev1.Resource("nodes"), "", pod.Spec.NodeName))
	switch {
	case apierrors.IsNotFound(err):
		return admission.NewForbidden(a, fmt.Errorf("node %q not found", pod.Spec.NodeName))
	case err != nil:
		return admission.NewForbidden(a, fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err))
	}
	if system, known := node.Labels[corev1.LabelOSStable]; known && system != string(corev1.Linux) {
		return refuse(a, ReasonUnsupportedPlatform,
			fmt.Sprintf("pod resize is only supported on linux nodes, node %q is %q", node.Name, system))
	}
	if missing := beyond(pod, node.Status.Allocatable); missing != "" {
		return refuse(a, ReasonNodeCapacity, "node didn't have enough allocatable resources: "+missing)
	}
	return nil
}

// beyond says of what a pod asks for more than there is.
func beyond(pod *corev1.Pod, allocatable corev1.ResourceList) string {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	var out []string
	if has := allocatable.Cpu(); requests.Cpu().Cmp(*has) > 0 {
		out = append(out, fmt.Sprintf("cpu, requested: %d, allocatable: %d", requests.Cpu().MilliValue(),
			has.MilliValue()))
	}
	if has := allocatable.Memory(); requests.Memory().Cmp(*has) > 0 {
		out = append(out, fmt.Sprintf("memory, requested: %d, allocatable: %d", requests.Memory().Value(), has.Value()))
	}
	return strings.Join(out, "; ")
}

func refuse(a admission.Attributes, cause metav1.CauseType, why string) error {
	err := admission.NewForbidden(a, errors.New(why))
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return err
}
