package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ratchetRule is a set of rules that a new spec must follow, but that an update of a spec that was stored in breach of
// them needn't: by a server that didn't check them yet, or that had more features on.
type ratchetRule uint

const (
	badCost ratchetRule = 1 << iota
	brokenPages
	badAffinity
	badSpread
	badSpreadKeys
	badTokenPath
	hostSysctl
	restartingInit
	mappedDevices
	mappedHostNetwork
	comparing
)

// oldState is a pod or a template before an update; nil on creation. Whether it broke a rule is checked when the update
// breaks it, and once. It is of one request, and not to be shared.
type oldState struct {
	spec         *corev1.PodSpec
	annotations  map[string]string
	asked, found ratchetRule
}

func oldPodState(old *corev1.Pod) *oldState {
	return &oldState{spec: &old.Spec, annotations: old.Annotations}
}

func oldTemplateState(old *corev1.PodTemplateSpec) *oldState {
	if old == nil {
		return nil
	}
	return &oldState{spec: &old.Spec, annotations: old.Annotations}
}

// HadBadSelectors reports whether the affinity of a stored template has selectors that a new one must not have.
func HadBadSelectors(old *corev1.PodTemplateSpec) bool { return oldTemplateState(old).had(badAffinity) }

// had reports whether a fault was there.
func (b *oldState) had(f ratchetRule) bool {
	if b == nil {
		return false
	}
	if b.asked&f == 0 {
		b.asked |= f
		if b.look(f) {
			b.found |= f
		}
	}
	return b.found&f != 0
}

func (b *oldState) look(f ratchetRule) bool {
	s := b.spec
	switch f {
	case badCost:
		cost, has := b.annotations[corev1.PodDeletionCost]
		return has && !isCost(cost)
	case brokenPages:
		return breaksPages(s)
	case badAffinity:
		return anyPodTerm(s.Affinity, func(t *corev1.PodAffinityTerm) bool {
			return len(selector(t.LabelSelector, nil)) > 0 || len(selector(t.NamespaceSelector, nil)) > 0
		})
	case badSpread:
		return slices.ContainsFunc(s.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return len(selector(c.LabelSelector, nil)) > 0
		})
	case badSpreadKeys:
		return slices.ContainsFunc(s.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return len(mergedKeys(c.MatchLabelKeys, c.LabelSelector, nil)) > 0
		})
	case badTokenPath:
		found := false
		eachProjection(s, func(p *corev1.VolumeProjection) {
			found = found || p.ServiceAccountToken != nil && len(unreserved(p.ServiceAccountToken.Path, nil)) > 0
		})
		return found
	case hostSysctl:
		return s.SecurityContext != nil && slices.ContainsFunc(s.SecurityContext.Sysctls, func(c corev1.Sysctl) bool {
			return len(ofHost(c.Name, s, nil)) > 0
		})
	case restartingInit:
		return slices.ContainsFunc(s.InitContainers, func(c corev1.Container) bool {
			return !Restartable(&c) && slices.ContainsFunc(c.ResizePolicy, restartsToResize)
		})
	case mappedDevices:
		found := false
		eachContainer(s, nil, func(c *corev1.Container, _ *field.Path) { found = found || len(c.VolumeDevices) > 0 })
		return found && mapsUsers(s)
	case mappedHostNetwork:
		return s.HostNetwork && mapsUsers(s)
	case comparing:
		return slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool {
			return t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt
		})
	}
	return false
}

// nodes is the selector of nodes that was required.
func (b *oldState) nodes() *corev1.NodeSelector {
	if b == nil {
		return nil
	}
	return required(b.spec.Affinity)
}

// selector checks a selector of other pods.
func (b *oldState) selector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	errs := selector(s, at)
	if len(errs) > 0 && b.had(badAffinity) {
		return selectorKeys(s, at)
	}
	return errs
}

// selectorKeys checks a selector but for the values of its expressions.
func selectorKeys(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s,
		metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true}, at)
}

// breaksPages reports whether a container, or what a pod takes besides, has parts of huge pages. Upstream doesn't ask
// the resources of the pod as a whole.
func breaksPages(s *corev1.PodSpec) bool {
	found := false
	look := func(list corev1.ResourceList) {
		for n, q := range list {
			found = found || hugePages(n) && !wholePages(n, q)
		}
	}
	eachContainer(s, nil, func(c *corev1.Container, _ *field.Path) {
		look(c.Resources.Limits)
		look(c.Resources.Requests)
	})
	look(s.Overhead)
	return found
}

// anyPodTerm reports whether a condition holds for one of the terms about other pods.
func anyPodTerm(a *corev1.Affinity, is func(*corev1.PodAffinityTerm) bool) bool {
	if a == nil {
		return false
	}
	one := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) bool {
		return slices.ContainsFunc(required, func(t corev1.PodAffinityTerm) bool { return is(&t) }) ||
			slices.ContainsFunc(preferred,
				func(t corev1.WeightedPodAffinityTerm) bool { return is(&t.PodAffinityTerm) })
	}
	return a.PodAffinity != nil &&
		one(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) ||
		a.PodAntiAffinity != nil &&
			one(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
				a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
}
