// Package tolerations compares what pods tolerate with what others make them tolerate.
package tolerations

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Merge leaves out what another toleration covers; of equal ones the first stays.
func Merge(all []corev1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for i, t := range all {
		covered := slices.ContainsFunc(out, func(kept corev1.Toleration) bool { return Covers(kept, t) }) ||
			slices.ContainsFunc(all[i+1:], func(later corev1.Toleration) bool {
				return !equality.Semantic.DeepEqual(later, t) && Covers(later, t)
			})
		if !covered {
			out = append(out, t)
		}
	}
	return out
}

// Covers tells whether whatever t tolerates is tolerated by wide.
func Covers(wide, t corev1.Toleration) bool {
	if equality.Semantic.DeepEqual(wide, t) {
		return true
	}
	anyKey := wide.Key == "" && wide.Operator == corev1.TolerationOpExists
	if t.Key != wide.Key && !anyKey || t.Effect != wide.Effect && wide.Effect != "" {
		return false
	}
	if wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(t.TolerationSeconds == nil || *t.TolerationSeconds > *wide.TolerationSeconds) {
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == wide.Value
	}
	return false
}
