package core

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// SyncPodCIDR keeps podCIDR and podCIDRs the same; the single one wins.
func SyncPodCIDR(n *corev1.Node) {
	s := &n.Spec
	switch {
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	case s.PodCIDR == "" && len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	}
}

// PrepareNodeCreate drops dynamic kubelet configuration, which is no longer read.
func PrepareNodeCreate(n *corev1.Node) { n.Spec.ConfigSource, n.Status.Config = nil, nil }

// PrepareNodeUpdate keeps the status.
func PrepareNodeUpdate(new, old *corev1.Node) {
	new.Status = old.Status
	if old.Spec.ConfigSource == nil {
		new.Spec.ConfigSource = nil
	}
}

// PrepareNodeStatus keeps the spec.
func PrepareNodeStatus(new, old *corev1.Node) {
	new.Spec = old.Spec
	if old.Status.Config == nil {
		new.Status.Config = nil
	}
}

// NodeWarnings warns of fields without effect.
func NodeWarnings(n, _ *corev1.Node) []string {
	var out []string
	if n.Spec.ConfigSource != nil {
		out = append(out, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		out = append(out, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, c := range n.Spec.PodCIDRs {
		out = append(out, utilvalidation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), c)...)
	}
	return out
}

// ValidateNode checks a node.
func ValidateNode(n *corev1.Node) field.ErrorList {
	errs := validateNodeAnnotations(n)
	errs = append(errs, validateTaints(n.Spec.Taints, nodeTaints)...)
	errs = append(errs, validateNodeResources(n)...)
	if swap := n.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil && *swap.Capacity <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "nodeSwapStatus", "capacity"), *swap.Capacity,
			"must be greater than zero"))
	}
	errs = append(errs, validateDeclaredFeatures(n)...)
	cidrs := field.NewPath("spec", "podCIDRs")
	for i, c := range n.Spec.PodCIDRs {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(cidrs.Index(i), c, true, nil)...)
	}
	if len(n.Spec.PodCIDRs) > 1 {
		dual, err := netutils.IsDualStackCIDRStrings(n.Spec.PodCIDRs)
		if err != nil {
			errs = append(errs, field.InternalError(cidrs,
				fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
		}
		if !dual || len(n.Spec.PodCIDRs) > maxFamilies {
			errs = append(errs, field.Invalid(cidrs, n.Spec.PodCIDRs,
				"may specify no more than one CIDR for each IP family"))
		}
	}
	return errs
}

// nodeTaints is where upstream finds fault with taints.
var nodeTaints = field.NewPath("metadata", "taints")

// validateNodeAnnotations checks what annotations said before there were fields for it.
func validateNodeAnnotations(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	if text := n.Annotations[corev1.TaintsAnnotationKey]; text != "" {
		var taints []corev1.Taint
		if err := podspec.ReadUnversioned(text, &taints); err != nil {
			errs = append(errs, field.Invalid(path, corev1.TaintsAnnotationKey, err.Error()))
		} else {
			errs = append(errs, validateTaints(taints, path.Child(corev1.TaintsAnnotationKey))...)
		}
	}
	avoided, err := scheduling.GetAvoidPodsFromNodeAnnotations(n.Annotations)
	if err != nil {
		return append(errs, field.Invalid(path.Child("AvoidPods"), corev1.PreferAvoidPodsAnnotationKey, err.Error()))
	}
	for i, entry := range avoided.PreferAvoidPods {
		at := path.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
		if c := entry.PodSignature.PodController; c == nil {
			errs = append(errs, field.Required(at, ""))
		} else if !ptr.Deref(c.Controller, false) {
			errs = append(errs, field.Invalid(at.Child("PodController", "Controller"), false,
				"must point to a controller"))
		}
	}
	return errs
}

func validateNodeResources(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	check := func(name string, list corev1.ResourceList) {
		for _, r := range slices.Sorted(maps.Keys(list)) {
			errs = append(errs, podspec.Quantity(r, list[r], field.NewPath("status", name, string(r)))...)
		}
	}
	check("capacity", n.Status.Capacity)
	check("allocatable", n.Status.Allocatable)
	return errs
}

// featureName is that of a feature, and perhaps of a part of it.
var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

const featureForm = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' " +
	"(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"

func validateDeclaredFeatures(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	list, path := n.Status.DeclaredFeatures, field.NewPath("status", "declaredFeatures")
	for i, name := range list {
		problem := ""
		if most := utilvalidation.DNS1123SubdomainMaxLength; len(name) > most {
			problem = fmt.Sprintf("must be no more than %d characters", most)
		} else if !featureName.MatchString(name) {
			problem = featureForm
		}
		if problem != "" {
			errs = append(errs, field.Invalid(path.Index(i), name,
				fmt.Sprintf("invalid feature name %q: %s", name, problem)))
		}
		if i+1 == len(list) {
			break
		}
		switch next := list[i+1]; {
		case name == next:
			errs = append(errs, field.Duplicate(path.Index(i+1), next))
		case name > next:
			errs = append(errs, field.Invalid(path.Index(i+1), next, "list must be sorted alphabetically"))
		}
	}
	return errs
}

func validateTaints(list []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type id struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := sets.New[id]()
	for i := range list {
		t, at := &list[i], path.Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		if problems := utilvalidation.IsValidLabelValue(t.Value); len(problems) > 0 {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, strings.Join(problems, ";")))
		}
		errs = append(errs, podspec.TaintEffect(t.Effect, false, at.Child("effect"))...)
		key := id{t.Key, t.Effect}
		if seen.Has(key) {
			d := field.Duplicate(at, checks.Unversioned(*t))
			d.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, d)
		}
		seen.Insert(key)
	}
	return errs
}

// ValidateNodeChange checks a change, also of the status: what identifies the node stays. Some of it repeats
// ValidateNode, as upstream does.
func ValidateNodeChange(new, old *corev1.Node) field.ErrorList {
	errs := validateNodeAnnotations(new)
	errs = append(errs, validateNodeResources(new)...)
	errs = append(errs, validateDeclaredFeatures(new)...)
	seen := sets.New[corev1.NodeAddress]()
	for i, a := range new.Status.Addresses {
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), checks.Unversioned(a)))
		}
		seen.Insert(a)
	}
	spec := field.NewPath("spec")
	if had := old.Spec.PodCIDRs; len(had) > 0 {
		const kept = "node updates may not change podCIDR except from \"\" to valid"
		if len(had) != len(new.Spec.PodCIDRs) {
			errs = append(errs, field.Forbidden(spec.Child("podCIDRs"), kept))
		} else {
			for i := range had {
				if had[i] != new.Spec.PodCIDRs[i] {
					errs = append(errs, field.Forbidden(spec.Child("podCIDRs"), kept))
				}
			}
		}
	}
	if old.Spec.ProviderID != "" && new.Spec.ProviderID != old.Spec.ProviderID {
		errs = append(errs, field.Forbidden(spec.Child("providerID"),
			"node updates may not change providerID except from \"\" to valid"))
	}
	errs = append(errs, validateTaints(new.Spec.Taints, nodeTaints)...)
	if new.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(spec.Child("externalID"), "may not be updated"))
	}
	return errs
}
