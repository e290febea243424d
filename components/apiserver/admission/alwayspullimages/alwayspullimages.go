// Package alwayspullimages makes every pod show that it may have its images
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#alwayspullimages).
package alwayspullimages

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
)

// Name is the plug-in's.
const Name = "AlwaysPullImages"

// Plugin implements the admission.
type Plugin struct{ *admission.Handler }

var (
	_ admission.MutationInterface   = Plugin{}
	_ admission.ValidationInterface = Plugin{}
)

// New returns the plug-in.
func New() Plugin { return Plugin{admission.NewHandler(admission.Create, admission.Update)} }

// image is one that a pod names, and how it is pulled.
type image struct {
	name   string
	policy *corev1.PullPolicy
	path   *field.Path // of the policy
}

// imagesOf lists the images of a pod: of its containers, and of volumes.
func imagesOf(pod *corev1.Pod) []image {
	out := imagesOfContainers(pod)
	for i := range pod.Spec.Volumes {
		if v := pod.Spec.Volumes[i].Image; v != nil {
			out = append(out, image{v.Reference, &v.PullPolicy,
				field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy")})
		}
	}
	return out
}

// imagesOfContainers lists those of init, plain and ephemeral containers.
func imagesOfContainers(pod *corev1.Pod) []image {
	spec := field.NewPath("spec")
	var out []image
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		out = append(out, image{c.Image, &c.ImagePullPolicy,
			spec.Child("initContainers").Index(i).Child("imagePullPolicy")})
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		out = append(out, image{c.Image, &c.ImagePullPolicy,
			spec.Child("containers").Index(i).Child("imagePullPolicy")})
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		out = append(out, image{c.Image, &c.ImagePullPolicy,
			spec.Child("ephemeralContainers").Index(i).Child("imagePullPolicy")})
	}
	return out
}

// podOf is the pod that is written, or nil if there is nothing to do: a change that brings no new image of a container
// may keep what was admitted before.
func podOf(a admission.Attributes) *corev1.Pod {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil
	}
	old, ok := a.GetOldObject().(*corev1.Pod)
	if !ok || a.GetOperation() != admission.Update {
		return pod
	}
	known := map[string]bool{}
	for _, i := range imagesOfContainers(old) {
		known[i.name] = true
	}
	for _, i := range imagesOfContainers(pod) {
		if !known[i.name] {
			return pod
		}
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if pod := podOf(a); pod != nil {
		for _, i := range imagesOf(pod) {
			*i.policy = corev1.PullAlways
		}
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	var errs []error
	for _, i := range imagesOf(pod) {
		if *i.policy != corev1.PullAlways {
			errs = append(errs, admission.NewForbidden(a,
				field.NotSupported(i.path, *i.policy, []corev1.PullPolicy{corev1.PullAlways})))
		}
	}
	return utilerrors.NewAggregate(errs)
}
