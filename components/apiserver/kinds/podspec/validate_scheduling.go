package podspec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// Tolerations checks a list of tolerations.
func Tolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	return validateTolerations(list, nil, path)
}

func validateTolerations(list []corev1.Toleration, old *oldState, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		t, at := &list[i], path.Index(i)
		if t.Key != "" {
			errs = append(errs, checks.LabelKey(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect,
				"effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if msgs := utilvalidation.IsValidLabelValue(t.Value); len(msgs) > 0 {
				errs = append(errs, field.Invalid(at.Child("operator"), t.Value, strings.Join(msgs, ";")))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(at.Child("operator"), t.Value,
					"value must be empty when `operator` is 'Exists'"))
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt:
			errs = append(errs, old.comparison(t, at)...)
		default:
			errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator,
				[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
		}
		if t.Effect != "" {
			errs = append(errs, TaintEffect(t.Effect, true, at.Child("effect"))...)
		}
	}
	return errs
}

// comparison checks a toleration of greater or lesser taints: they are known, but not on (KEP-5471).
func (b *oldState) comparison(t *corev1.Toleration, at *field.Path) field.ErrorList {
	if !b.had(comparing) {
		return field.ErrorList{field.NotSupported(at.Child("operator"), t.Operator, []corev1.TolerationOperator{
			corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt})}
	}
	errs := problems(t.Value, at.Child("value"), content.IsDecimalInteger)
	if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
		errs = append(errs, field.Invalid(at.Child("value"), t.Value, err.Error()))
	}
	return errs
}

// TaintEffect checks the effect of a taint or a toleration.
func TaintEffect(e corev1.TaintEffect, allowEmpty bool, at *field.Path) field.ErrorList {
	switch e {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	case "":
		if allowEmpty {
			return nil
		}
		return field.ErrorList{field.Required(at, "")}
	}
	return field.ErrorList{field.NotSupported(at, e, []corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute})}
}

func validateGates(list []corev1.PodSchedulingGate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, g := range list {
		errs = append(errs, problems(g.Name, path.Index(i), utilvalidation.IsQualifiedName)...)
		if seen.Has(g.Name) {
			errs = append(errs, field.Duplicate(path.Index(i), g.Name))
		}
		seen.Insert(g.Name)
	}
	return errs
}

func validateSpread(list []corev1.TopologySpreadConstraint, old *oldState, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		c, at := &list[i], path.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "must be greater than zero"))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
		}
		errs = append(errs, supported(c.WhenUnsatisfiable, at.Child("whenUnsatisfiable"), corev1.DoNotSchedule,
			corev1.ScheduleAnyway)...)
		if slices.ContainsFunc(list[i+1:], func(other corev1.TopologySpreadConstraint) bool {
			return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
		}) {
			errs = append(errs, field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"),
				fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		errs = append(errs, minDomains(c, at.Child("minDomains"))...)
		errs = append(errs, inclusion(c.NodeAffinityPolicy, at.Child("nodeAffinityPolicy"))...)
		errs = append(errs, inclusion(c.NodeTaintsPolicy, at.Child("nodeTaintsPolicy"))...)
		errs = append(errs, old.spreadKeys(c, at)...)
		if more := selector(c.LabelSelector, at.Child("labelSelector")); len(more) > 0 && !old.had(badSpread) {
			errs = append(errs, more...)
		}
	}
	return errs
}

// spreadKeys checks the keys whose values come from the pod. Constraints that were stored before those values went into
// the selector are checked as they were then.
func (b *oldState) spreadKeys(c *corev1.TopologySpreadConstraint, at *field.Path) field.ErrorList {
	if len(c.MatchLabelKeys) == 0 {
		return nil
	}
	if b.had(badSpreadKeys) {
		return unmergedKeys(c.MatchLabelKeys, c.LabelSelector, at.Child("matchLabelKeys"))
	}
	return mergedKeys(c.MatchLabelKeys, c.LabelSelector, at)
}

func minDomains(c *corev1.TopologySpreadConstraint, at *field.Path) field.ErrorList {
	if c.MinDomains == nil {
		return nil
	}
	var errs field.ErrorList
	if *c.MinDomains <= 0 {
		errs = append(errs, field.Invalid(at, *c.MinDomains, "must be greater than zero"))
	}
	if c.WhenUnsatisfiable != corev1.DoNotSchedule {
		errs = append(errs, field.Invalid(at, *c.MinDomains,
			fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule,
				c.WhenUnsatisfiable)))
	}
	return errs
}

func inclusion(p *corev1.NodeInclusionPolicy, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	return supported(*p, at, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
}
