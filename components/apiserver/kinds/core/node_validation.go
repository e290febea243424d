package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

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

// ValidateNode checks a node.
func ValidateNode(n *corev1.Node) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateTaints(n.Spec.Taints, path.Child("taints"))
	for name, list := range map[string]corev1.ResourceList{"capacity": n.Status.Capacity, "allocatable": n.Status.Allocatable} {
		for r, q := range list {
			errs = append(errs, podspec.Quantity(r, q, field.NewPath("status", name).Key(string(r)))...)
		}
	}
	cidrs := path.Child("podCIDRs")
	for i, c := range n.Spec.PodCIDRs {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(cidrs.Index(i), c, false, nil)...)
	}
	if len(n.Spec.PodCIDRs) > 1 {
		if dual, err := netutils.IsDualStackCIDRStrings(n.Spec.PodCIDRs); err != nil {
			errs = append(errs, field.InternalError(cidrs, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
		} else if !dual || len(n.Spec.PodCIDRs) > maxFamilies {
			errs = append(errs, field.Invalid(cidrs, n.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family"))
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
		for _, msg := range utilvalidation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, msg))
		}
		errs = append(errs, podspec.TaintEffect(t.Effect, false, at.Child("effect"))...)
		key := id{t.Key, t.Effect}
		if seen.Has(key) {
			d := field.Duplicate(at, *t)
			d.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, d)
		}
		seen.Insert(key)
	}
	return errs
}

// ValidateNodeUpdate checks a change: what identifies the node stays.
func ValidateNodeUpdate(new, old *corev1.Node) field.ErrorList {
	errs := ValidateNode(new)
	seen := sets.New[corev1.NodeAddress]()
	for i, a := range new.Status.Addresses {
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), a))
		}
		seen.Insert(a)
	}
	if len(old.Spec.PodCIDRs) > 0 && !apiequality.Semantic.DeepEqual(new.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	if old.Spec.ProviderID != "" && new.Spec.ProviderID != old.Spec.ProviderID {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	rest := new.Spec
	rest.PodCIDR, rest.PodCIDRs, rest.ProviderID = old.Spec.PodCIDR, old.Spec.PodCIDRs, old.Spec.ProviderID
	rest.Unschedulable, rest.Taints, rest.ConfigSource = old.Spec.Unschedulable, old.Spec.Taints, old.Spec.ConfigSource
	if !apiequality.Semantic.DeepEqual(rest, old.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath(""),
			"node updates may only change labels, taints, or capacity (or configSource, if the DynamicKubeletConfig feature gate is enabled)"))
	}
	return errs
}
