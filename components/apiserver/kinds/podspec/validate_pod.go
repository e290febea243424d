package podspec

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mutable names what an update of a pod may change, for the error about all else.
var mutable = []string{
	"`spec.containers[*].image`",
	"`spec.initContainers[*].image`",
	"`spec.activeDeadlineSeconds`",
	"`spec.tolerations` (only additions to existing tolerations)",
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
}

// ValidateCreate checks a new pod.
func ValidateCreate(p *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	errs := validatePod(p)
	if len(p.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if len(p.Spec.SchedulingGates) > 0 && p.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

func validatePod(p *corev1.Pod) field.ErrorList {
	errs := validateAnnotations(p.Annotations, &p.Spec, field.NewPath("metadata", "annotations"))
	return append(errs, Validate(&p.Spec, field.NewPath("spec"), true)...)
}

// ValidateUpdate checks a change through the main resource: almost all of a pod's spec stays.
func ValidateUpdate(new, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	errs := validatePod(new)
	if len(new.Spec.Containers) != len(old.Spec.Containers) {
		return append(errs, field.Forbidden(path.Child("containers"), "pod updates may not add or remove containers"))
	}
	if len(new.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(path.Child("initContainers"), "pod updates may not add or remove containers"))
	}
	errs = append(errs, validateDeadlineUpdate(new, old, path.Child("activeDeadlineSeconds"))...)
	errs = append(errs, onlyAddedTolerations(new.Spec.Tolerations, old.Spec.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, onlyRemovedGates(new.Spec.SchedulingGates, old.Spec.SchedulingGates, path.Child("schedulingGates"))...)
	if len(errs) > 0 {
		return errs
	}
	munged := revert(&new.Spec, &old.Spec)
	if len(old.Spec.SchedulingGates) > 0 {
		// A gated pod's constraints on nodes may become tighter: nothing has acted on them yet.
		errs = append(errs, tighterNodes(&new.Spec, &old.Spec, path)...)
		munged.NodeSelector = old.Spec.NodeSelector
		munged.Affinity = withNodeAffinity(munged.Affinity, old.Spec.Affinity)
	}
	if !apiequality.Semantic.DeepEqual(*munged, old.Spec) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("pod updates may not change fields other than %s\n%v",
			strings.Join(mutable, ","), diff.Diff(old.Spec, *munged))))
	}
	return errs
}

// revert returns new with all that an update may change put back to what it was.
func revert(new, old *corev1.PodSpec) *corev1.PodSpec {
	out := new.DeepCopy()
	for i := range out.Containers {
		out.Containers[i].Image = old.Containers[i].Image
	}
	for i := range out.InitContainers {
		out.InitContainers[i].Image = old.InitContainers[i].Image
	}
	out.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	out.Tolerations = old.Tolerations
	out.SchedulingGates = old.SchedulingGates
	if was, is := old.TerminationGracePeriodSeconds, out.TerminationGracePeriodSeconds; was != nil && *was < 0 && is != nil && *is == 1 {
		out.TerminationGracePeriodSeconds = was
	}
	return out
}

func validateDeadlineUpdate(new, old *corev1.Pod, path *field.Path) field.ErrorList {
	is, was := new.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds
	switch {
	case is != nil && (*is < 0 || *is > math.MaxInt32):
		return field.ErrorList{field.Invalid(path, *is, utilvalidation.InclusiveRangeError(0, math.MaxInt32))}
	case is != nil && was != nil && *was < *is:
		return field.ErrorList{field.Invalid(path, *is, "must be less than or equal to previous value")}
	case is == nil && was != nil:
		return field.ErrorList{field.Invalid(path, is, "must not update from a positive integer to nil value")}
	}
	return nil
}

func onlyAddedTolerations(new, old []corev1.Toleration, path *field.Path) field.ErrorList {
	for i := range old {
		kept := false
		was := old[i]
		was.TolerationSeconds = nil
		for j := range new {
			is := new[j]
			is.TolerationSeconds = nil
			if kept = apiequality.Semantic.DeepEqual(was, is); kept {
				break
			}
		}
		if !kept {
			return field.ErrorList{field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}

func onlyRemovedGates(new, old []corev1.PodSchedulingGate, path *field.Path) field.ErrorList {
	had := map[string]bool{}
	for _, g := range old {
		had[g.Name] = true
	}
	var errs field.ErrorList
	for i, g := range new {
		if !had[g.Name] {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name)))
		}
	}
	return errs
}

// ValidateStatusUpdate checks a change through /status.
func ValidateStatusUpdate(new, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status")
	for _, msg := range nodeNameProblems(new.Status.NominatedNodeName) {
		errs = append(errs, field.Invalid(path.Child("nominatedNodeName"), new.Status.NominatedNodeName, msg))
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
	errs := validatePod(new)
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
