package podspec

import (
	"fmt"
	"maps"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/equality"
)

// mutable names what an update of a pod may change, for the error about all else.
var mutable = []string{
	"`spec.containers[*].image`",
	"`spec.initContainers[*].image`",
	"`spec.activeDeadlineSeconds`",
	"`spec.tolerations` (only additions to existing tolerations)",
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
}

// ValidateUpdate checks a change through the main resource: almost all of a pod's spec stays.
func (r Rules) ValidateUpdate(new, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	was := oldPodState(old)
	errs := r.validatePod(new, was)
	errs = append(errs, keptAnnotations(new, was)...)
	for _, list := range []struct {
		name    string
		is, was []corev1.Container
	}{
		{"containers", new.Spec.Containers, old.Spec.Containers},
		{"initContainers", new.Spec.InitContainers, old.Spec.InitContainers},
	} {
		if len(list.is) != len(list.was) {
			return append(errs, field.Forbidden(path.Child(list.name), "pod updates may not add or remove containers"))
		}
		for i := range list.is {
			image, at := list.is[i].Image, path.Child(list.name).Index(i)
			errs = append(errs, checks.Required(image, at.Child("image"))...)
			errs = append(errs, trimmed(image, at)...)
		}
	}
	more, last := validateDeadlineUpdate(new, old, path.Child("activeDeadlineSeconds"))
	errs = append(errs, more...)
	if last {
		return errs
	}
	errs = append(errs, onlyAddedTolerations(new.Spec.Tolerations, was, path.Child("tolerations"))...)
	errs = append(errs, onlyRemovedGates(new.Spec.SchedulingGates, old.Spec.SchedulingGates,
		path.Child("schedulingGates"))...)
	if equality.Same(&new.Spec, &old.Spec) {
		return errs
	}
	munged := revert(&new.Spec, &old.Spec)
	if len(old.Spec.SchedulingGates) > 0 {
		// A gated pod's constraints on nodes may become tighter: nothing has acted on them yet.
		errs = append(errs, tighterNodes(&new.Spec, &old.Spec, path)...)
		munged.NodeSelector = old.Spec.NodeSelector
		munged.Affinity = withNodeAffinity(munged.Affinity, old.Spec.Affinity)
	}
	if !equality.Semantic(munged, &old.Spec) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("pod updates may not change fields other than %s\n%v",
			strings.Join(mutable, ","), diff.Diff(UnversionedSpec(&old.Spec), UnversionedSpec(munged)))))
	}
	return errs
}

// keptAnnotations checks that those annotations stay that say what a pod is.
func keptAnnotations(new *corev1.Pod, old *oldState) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("metadata", "annotations")
	if !maps.Equal(new.Annotations, old.annotations) {
		for _, key := range sortedKeys(old.annotations) {
			if is, has := new.Annotations[key]; (!has || is != old.annotations[key]) && telling(key) != "" {
				errs = append(errs, field.Forbidden(at.Key(key), "may not remove or update "+telling(key)))
			}
		}
		for _, key := range sortedKeys(new.Annotations) {
			if _, had := old.annotations[key]; !had && telling(key) != "" {
				errs = append(errs, field.Forbidden(at.Key(key), "may not add "+telling(key)))
			}
		}
	}
	return append(errs, validateAnnotations(new.Annotations, &new.Spec, old, at)...)
}

// telling is what errors call an annotation that says what a pod is, and "" for any other.
func telling(key string) string {
	switch {
	case strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix):
		return "AppArmor annotations"
	case key == corev1.MirrorPodAnnotationKey:
		return "mirror pod annotation"
	}
	return ""
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
	return out
}

// validateDeadlineUpdate checks how a deadline changes. last tells that nothing else is looked at, as upstream has it
// for times that are wrong, and not for one that is taken away.
func validateDeadlineUpdate(new, old *corev1.Pod, path *field.Path) (errs field.ErrorList, last bool) {
	is, was := new.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds
	switch {
	case is != nil && (*is < 0 || *is > math.MaxInt32):
		return field.ErrorList{field.Invalid(path, *is, utilvalidation.InclusiveRangeError(0, math.MaxInt32))}, true
	case is != nil && was != nil && *was < *is:
		return field.ErrorList{field.Invalid(path, *is, "must be less than or equal to previous value")}, true
	case is == nil && was != nil:
		return field.ErrorList{field.Invalid(path, is, "must not update from a positive integer to nil value")}, false
	}
	return nil, false
}

func onlyAddedTolerations(new []corev1.Toleration, old *oldState, path *field.Path) field.ErrorList {
	for _, was := range old.spec.Tolerations {
		kept := false
		was.TolerationSeconds = nil
		for j := range new {
			is := new[j]
			is.TolerationSeconds = nil
			if kept = equality.Semantic(was, is); kept {
				break
			}
		}
		if !kept {
			return field.ErrorList{field.Forbidden(path,
				"existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return validateTolerations(new, old, path)
}

func onlyRemovedGates(new, old []corev1.PodSchedulingGate, path *field.Path) field.ErrorList {
	had := map[string]bool{}
	for _, g := range old {
		had[g.Name] = true
	}
	last := map[string]int{} // where of several of a name clients are told
	for i, g := range new {
		last[g.Name] = i
	}
	var errs field.ErrorList
	for i, g := range new {
		if !had[g.Name] && last[g.Name] == i {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name)))
		}
	}
	return errs
}
