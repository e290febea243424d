package podspec

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// tighterNodes checks that a gated pod's node selector and required node affinity only get stricter (KEP-3838).
func tighterNodes(new, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for key, was := range old.NodeSelector {
		if is, kept := new.NodeSelector[key]; !kept || is != was {
			errs = append(errs, field.Invalid(path.Child("nodeSelector"), new.NodeSelector,
				"only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	was, is := required(old.Affinity), required(new.Affinity)
	if was == nil {
		return errs
	}
	at := path.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if is == nil || len(is.NodeSelectorTerms) != len(was.NodeSelectorTerms) {
		var terms []corev1.NodeSelectorTerm
		if is != nil {
			terms = is.NodeSelectorTerms
		}
		return append(errs, field.Invalid(at, checks.Unversioned(terms),
			"no additions/deletions to non-empty NodeSelectorTerms list are allowed"))
	}
	for i := range was.NodeSelectorTerms {
		if !tighter(&is.NodeSelectorTerms[i], &was.NodeSelectorTerms[i]) {
			errs = append(errs, field.Invalid(at.Index(i), checks.Unversioned(is.NodeSelectorTerms[i]),
				"only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

func required(a *corev1.Affinity) *corev1.NodeSelector {
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// tighter reports whether a term has what it had, and maybe more: one of nothing, which finds no node, would find some
// with more.
func tighter(is, was *corev1.NodeSelectorTerm) bool {
	if empty(was) {
		return empty(is)
	}
	return startsWith(is.MatchExpressions, was.MatchExpressions) && startsWith(is.MatchFields, was.MatchFields)
}

func empty(t *corev1.NodeSelectorTerm) bool { return len(t.MatchExpressions)+len(t.MatchFields) == 0 }

func startsWith(list, prefix []corev1.NodeSelectorRequirement) bool {
	return len(list) >= len(prefix) && apiequality.Semantic.DeepEqual(list[:len(prefix)], prefix)
}

// withNodeAffinity returns new with the node affinity of old, and nothing where new has only a node affinity more.
func withNodeAffinity(new, old *corev1.Affinity) *corev1.Affinity {
	var nodes *corev1.NodeAffinity
	if old != nil {
		nodes = old.NodeAffinity
	}
	switch {
	case new == nil && nodes == nil:
		return nil
	case new == nil:
		return &corev1.Affinity{NodeAffinity: nodes}
	case old == nil && new.NodeAffinity != nil && new.PodAffinity == nil && new.PodAntiAffinity == nil:
		return nil
	}
	return &corev1.Affinity{NodeAffinity: nodes, PodAffinity: new.PodAffinity, PodAntiAffinity: new.PodAntiAffinity}
}
