package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubectl/pkg/util/qos"
)

// ValidateResize checks a change through /resize: only CPU and memory of containers that can be resized, and never so
// that the pod's class of service changes (KEP-1287).
func ValidateResize(new, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	if Terminal(old) || old.DeletionTimestamp != nil {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "terminated pods cannot be resized")}
	}
	errs := validatePod(new, old)
	if qos.ComputePodQOS(new) != qos.ComputePodQOS(old) {
		errs = append(errs, field.Invalid(path, new.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	munged := new.Spec.DeepCopy()
	errs = append(errs, resizeAll(munged.Containers, old.Spec.Containers, path.Child("containers"), false)...)
	errs = append(errs, resizeAll(munged.InitContainers, old.Spec.InitContainers, path.Child("initContainers"), true)...)
	if !apiequality.Semantic.DeepEqual(munged.Resources, old.Spec.Resources) {
		errs = append(errs, onlyComputeChanged(orEmpty(munged.Resources), orEmpty(old.Spec.Resources), path.Child("resources"))...)
		munged.Resources = old.Spec.Resources
	}
	if !apiequality.Semantic.DeepEqual(*munged, old.Spec) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("only cpu and memory resources are mutable\n%v", diff.Diff(UnversionedSpec(&old.Spec), UnversionedSpec(munged)))))
	}
	return errs
}

func orEmpty(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil {
		return &corev1.ResourceRequirements{}
	}
	return r
}

// resizeAll checks the changes of resources and puts them back.
func resizeAll(new, old []corev1.Container, path *field.Path, init bool) field.ErrorList {
	var errs field.ErrorList
	for i := range min(len(new), len(old)) {
		at := path.Index(i).Child("resources")
		if apiequality.Semantic.DeepEqual(new[i].Resources, old[i].Resources) {
			continue
		}
		if init && !Restartable(&old[i]) {
			errs = append(errs, field.Forbidden(at, "only sidecar containers can be resized"))
		} else {
			errs = append(errs, onlyComputeChanged(&new[i].Resources, &old[i].Resources, at)...)
		}
		new[i].Resources = old[i].Resources
	}
	return errs
}

func onlyComputeChanged(new, old *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	compare := func(name string, is, was corev1.ResourceList) {
		for r := range was {
			if _, kept := is[r]; !kept {
				errs = append(errs, field.Forbidden(path.Child(name), fmt.Sprintf("resource %s cannot be removed", r)))
			}
		}
		for r, q := range is {
			before, had := was[r]
			if (!had || q.Cmp(before) != 0) && r != corev1.ResourceCPU && r != corev1.ResourceMemory {
				errs = append(errs, field.Forbidden(path.Child(name), "only cpu and memory resources are mutable"))
			}
		}
	}
	compare("limits", new.Limits, old.Limits)
	compare("requests", new.Requests, old.Requests)
	if !apiequality.Semantic.DeepEqual(new.Claims, old.Claims) {
		errs = append(errs, field.Forbidden(path.Child("claims"), "only cpu and memory resources are mutable"))
	}
	return errs
}
