package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateStatusUpdate checks a change through /status.
func ValidateStatusUpdate(new, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status")
	if name := new.Status.NominatedNodeName; name != "" {
		errs = append(errs, problems(name, path.Child("nominatedNodeName"), subdomain)...)
	}
	if new.Spec.NodeName != old.Spec.NodeName {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	if new.Status.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(path.Child("observedGeneration"), new.Status.ObservedGeneration, "must be greater than or equal to 0"))
	}
	errs = append(errs, noRestart(new.Status.ContainerStatuses, old.Status.ContainerStatuses, new.Spec.Containers,
		new.Spec.RestartPolicy, path.Child("containerStatuses"))...)
	initPolicy := new.Spec.RestartPolicy
	if initPolicy == corev1.RestartPolicyAlways {
		initPolicy = corev1.RestartPolicyOnFailure // init containers that have succeeded are done
	}
	return append(errs, noRestart(new.Status.InitContainerStatuses, old.Status.InitContainerStatuses, new.Spec.InitContainers,
		initPolicy, path.Child("initContainerStatuses"))...)
}

// noRestart refuses that a container which ended for good runs again.
func noRestart(new, old []corev1.ContainerStatus, containers []corev1.Container, policy corev1.RestartPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	byName := map[string]*corev1.Container{}
	for i := range containers {
		byName[containers[i].Name] = &containers[i]
	}
	for i := range old {
		t := old[i].State.Terminated
		c := byName[old[i].Name]
		if t == nil || policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && t.ExitCode != 0 ||
			c != nil && (c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0) {
			continue
		}
		for j := range new {
			if new[j].Name == old[i].Name && new[j].State.Terminated == nil {
				errs = append(errs, field.Forbidden(path.Index(j).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}

// ValidateEphemeralUpdate checks a change through /ephemeralcontainers: they may be added, and stay as they are.
func ValidateEphemeralUpdate(new, old *corev1.Pod) field.ErrorList {
	errs := validatePod(new, old)
	path := field.NewPath("spec", "ephemeralContainers")
	is := map[string]corev1.EphemeralContainer{}
	for _, c := range new.Spec.EphemeralContainers {
		is[c.Name] = c
	}
	for _, was := range old.Spec.EphemeralContainers {
		c, kept := is[was.Name]
		if !kept {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
		} else if !apiequality.Semantic.DeepEqual(was, c) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(was, c))))
		}
	}
	return errs
}
