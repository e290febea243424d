package podspec

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubectl/pkg/util/qos"
)

// ValidateResize checks a change through /resize: only CPU and memory, and never so that the pod's class of service
// changes (KEP-1287). meta are the faults of the metadata, of which clients are told first, if at all.
func (r Rules) ValidateResize(new, old *corev1.Pod, meta field.ErrorList) field.ErrorList {
	path := field.NewPath("spec")
	errs := slices.Concat(meta, r.validatePod(new, oldPodState(old)))
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if isWindows(&old.Spec) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	if qos.ComputePodQOS(new) != qos.GetPodQOS(old) { // old may have been made with a class that it is not of
		errs = append(errs, field.Invalid(path, new.Status.QOSClass,
			"Pod QOS Class may not change as a result of resizing"))
	}
	if !nodeResizes(old) {
		errs = append(errs, field.Forbidden(path, "Pod running on node without support for resize"))
	}
	munged := new.Spec.DeepCopy()
	if wholeSized(new) || wholeSized(old) {
		errs = append(errs, resizeWhole(munged, &old.Spec, path)...)
	}
	if len(old.Status.NodeAllocatableResourceClaimStatuses) > 0 {
		errs = append(errs, field.Forbidden(path, "pods with node allocatable resource claims cannot be resized"))
	}
	more := append(sameContainers(new.Spec.Containers, old.Spec.Containers, path, "containers"),
		sameContainers(new.Spec.InitContainers, old.Spec.InitContainers, path, "initContainers")...)
	if len(more) > 0 {
		return append(errs, more...)
	}
	errs = append(errs, nothingRemoved(new.Spec.InitContainers, old.Spec.InitContainers,
		path.Child("initContainers"))...)
	errs = append(errs, nothingRemoved(new.Spec.Containers, old.Spec.Containers, path.Child("containers"))...)
	for i := range munged.Containers {
		if restoreCompute(&munged.Containers[i],
			&old.Spec.Containers[i]); !apiequality.Semantic.DeepEqual(munged.Containers[i], old.Spec.Containers[i]) {
			errs = append(errs, field.Forbidden(path, onlyCompute))
		}
	}
	errs = append(errs, resizeInit(munged.InitContainers, old.Spec.InitContainers, path.Child("initContainers"))...)
	if len(errs) == 0 && !apiequality.Semantic.DeepEqual(*munged, old.Spec) {
		errs = append(errs, field.Forbidden(path, onlyCompute))
	}
	return errs
}

const onlyCompute = "only cpu and memory resources are mutable"

// nodeResizes reports whether the pod's kubelet tells what its containers have, and so can change it; as long as none
// runs, that isn't known.
func nodeResizes(p *corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.Resources != nil
		}
	}
	return true
}

// sameContainers checks that there are the same containers in the same order.
func sameContainers(new, old []corev1.Container, path *field.Path, name string) field.ErrorList {
	if len(new) != len(old) {
		return field.ErrorList{field.Forbidden(path.Child(name), name+" may not be added or removed on resize")}
	}
	var errs field.ErrorList
	for i := range old {
		if new[i].Name != old[i].Name {
			errs = append(errs, field.Forbidden(path.Child(name).Index(i).Child("name"),
				name+" may not be renamed or reordered on resize"))
		}
	}
	return errs
}

// nothingRemoved checks that what was asked for is still asked for, however much of it.
func nothingRemoved(new, old []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range old {
		at, is, was := path.Index(i).Child("resources"), new[i].Resources, old[i].Resources
		if removed(is.Requests, was.Requests) {
			errs = append(errs, field.Forbidden(at.Child("requests"), "resource requests cannot be removed"))
		}
		if removed(is.Limits, was.Limits) {
			errs = append(errs, field.Forbidden(at.Child("limits"), "resource limits cannot be removed"))
		}
	}
	return errs
}

func removed(is, was corev1.ResourceList) bool {
	for name := range was {
		if _, kept := is[name]; !kept {
			return true
		}
	}
	return false
}

// resizeInit checks the changes of init containers; those that end before the others start must not be restarted for
// it.
func resizeInit(new, old []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range new {
		c := &new[i]
		changed := !apiequality.Semantic.DeepEqual(*c, old[i])
		if restoreCompute(c, &old[i]); !apiequality.Semantic.DeepEqual(*c, old[i]) {
			errs = append(errs, field.Forbidden(path.Index(i),
				"only cpu and memory resources for init or sidecar containers are mutable"))
		}
		if !changed || Restartable(c) {
			continue
		}
		for _, p := range c.ResizePolicy {
			if p.RestartPolicy == corev1.RestartContainer {
				errs = append(errs, field.Forbidden(path.Index(i),
					"non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
			}
		}
	}
	return errs
}

// restoreCompute gives a container the CPU and memory that it had, and no claims, as upstream does.
func restoreCompute(c, old *corev1.Container) {
	c.Resources = corev1.ResourceRequirements{
		Limits:   withCompute(c.Resources.Limits, old.Resources.Limits),
		Requests: withCompute(c.Resources.Requests, old.Resources.Requests),
	}
}

// withCompute is a list with the CPU and memory of another.
func withCompute(is, was corev1.ResourceList) corev1.ResourceList {
	if is == nil && was == nil {
		return nil
	}
	out := corev1.ResourceList{}
	maps.Copy(out, is)
	for _, n := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		delete(out, n)
		if q, had := was[n]; had {
			out[n] = q
		}
	}
	return out
}

// wholeSized tells a pod that has resources as a whole.
func wholeSized(p *corev1.Pod) bool {
	return p.Spec.Resources != nil && len(p.Spec.Resources.Requests)+len(p.Spec.Resources.Limits) > 0
}

// resizeWhole checks the resources of the pod as a whole, and gives munged the CPU and memory that the old one had.
func resizeWhole(munged, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	at := path.Child("resources")
	is, was := munged.Resources, old.Resources
	var errs field.ErrorList
	switch {
	case was != nil && is == nil:
		return field.ErrorList{field.Forbidden(at, "pod-level resources cannot be removed")}
	case was == nil:
		was = &corev1.ResourceRequirements{}
	default:
		if removed(is.Requests, was.Requests) {
			errs = append(errs, field.Forbidden(at.Child("requests"), "pod-level resource requests cannot be removed"))
		}
		if removed(is.Limits, was.Limits) {
			errs = append(errs, field.Forbidden(at.Child("limits"), "pod-level resource limits cannot be removed"))
		}
	}
	if is != nil {
		is.Requests, is.Limits = withCompute(is.Requests, was.Requests), withCompute(is.Limits, was.Limits)
		if old.Resources == nil && len(is.Requests)+len(is.Limits)+len(is.Claims) == 0 {
			munged.Resources = nil
		}
	}
	if !apiequality.Semantic.DeepEqual(munged.Resources, old.Resources) {
		errs = append(errs, field.Forbidden(path, onlyCompute+" at pod-level"))
	}
	return errs
}
