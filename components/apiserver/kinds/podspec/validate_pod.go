package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rules check pods and templates, as far as that is for each server to say. The zero value is the default.
type Rules struct {
	// Privileged lets containers ask for privileged mode, and be processes of a Windows host.
	Privileged bool
	// KeptSelectors lets the affinity of a template that is stored have values that no label has, as the selector of
	// its workload has such: upstream keeps both where one of them is stored so.
	KeptSelectors bool
}

// ValidateCreate checks a new pod.
func (r Rules) ValidateCreate(p *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	errs := r.validatePod(p, nil)
	if len(p.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if len(p.Spec.SchedulingGates) > 0 && p.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(path.Child("nodeName"),
			"cannot be set until all schedulingGates have been cleared"))
	}
	return append(errs, validateProfilesAgree(p.Annotations, &p.Spec, path)...)
}

// validatePod checks a pod; old is what it was before, nil if it is new.
func (r Rules) validatePod(p *corev1.Pod, old *oldState) field.ErrorList {
	errs := validateAnnotations(p.Annotations, &p.Spec, old, field.NewPath("metadata", "annotations"))
	path := field.NewPath("spec")
	errs = append(errs, r.validateSpec(&p.Spec, old, &p.ObjectMeta, path)...)
	if p.Spec.ServiceAccountName == "" {
		errs = append(errs, noTokens(p.Spec.Volumes, path.Child("volumes"))...)
	}
	for i := range p.Spec.Containers {
		errs = append(errs, trimmed(p.Spec.Containers[i].Image, path.Child("containers").Index(i))...)
	}
	for i := range p.Spec.InitContainers {
		errs = append(errs, trimmed(p.Spec.InitContainers[i].Image, path.Child("initContainers").Index(i))...)
	}
	return errs
}

// noTokens refuses tokens in the volumes of a pod that has no service account, which templates may leave open.
func noTokens(list []corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		p := list[i].Projected
		if p == nil {
			continue
		}
		for j := range p.Sources {
			if p.Sources[j].ServiceAccountToken != nil {
				errs = append(errs, field.Forbidden(
					path.Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
					"must not be specified when serviceAccountName is not set"))
			}
		}
	}
	return errs
}
