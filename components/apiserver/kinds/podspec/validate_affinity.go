package podspec

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

func validateAffinity(a *corev1.Affinity, old *oldState, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		at := path.Child("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			errs = append(errs, NodeSelectorUpdate(n.RequiredDuringSchedulingIgnoredDuringExecution, old.nodes(),
				at.Child("requiredDuringSchedulingIgnoredDuringExecution"))...)
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t, p := &n.PreferredDuringSchedulingIgnoredDuringExecution[i],
				at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
			errs = append(errs, weight(t.Weight, p.Child("weight"))...)
			errs = append(errs, nodeTerm(&t.Preference, false, p.Child("preference"))...)
		}
	}
	if p := a.PodAffinity; p != nil {
		errs = append(errs, old.podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))...)
	}
	if p := a.PodAntiAffinity; p != nil {
		errs = append(errs, old.podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))...)
	}
	return errs
}

func weight(w int32, at *field.Path) field.ErrorList {
	if w <= 0 || w > 100 {
		return field.ErrorList{field.Invalid(at, w, "must be in the range 1-100")}
	}
	return nil
}

// NodeSelector checks a selector of nodes.
func NodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	return nodeSelector(s, true, path)
}

// NodeSelectorUpdate does so for a change: the old one may have had values that no label can have, and may have been
// none.
func NodeSelectorUpdate(s, old *corev1.NodeSelector, path *field.Path) field.ErrorList {
	errs := nodeSelector(s, true, path)
	if len(errs) > 0 && old != nil && slices.ContainsFunc(old.NodeSelectorTerms, hasBadValues) {
		return nodeSelector(s, false, path)
	}
	return errs
}

func hasBadValues(t corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
		return slices.ContainsFunc(r.Values,
			func(v string) bool { return len(utilvalidation.IsValidLabelValue(v)) > 0 })
	})
}

func nodeSelector(s *corev1.NodeSelector, values bool, path *field.Path) field.ErrorList {
	terms := path.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(terms, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range s.NodeSelectorTerms {
		errs = append(errs, nodeTerm(&s.NodeSelectorTerms[i], values, terms.Index(i))...)
	}
	return errs
}

// nodeTerm checks a term. Only a required one has to be made of values that a label can have.
func nodeTerm(t *corev1.NodeSelectorTerm, values bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range t.MatchExpressions {
		r, at := &t.MatchExpressions[i], path.Child("matchExpressions").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"),
					"must be specified when `operator` is 'In' or 'NotIn'"))
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				errs = append(errs, field.Forbidden(at.Child("values"),
					"may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if len(r.Values) != 1 {
				errs = append(errs, field.Required(at.Child("values"),
					"must be specified single value when `operator` is 'Lt' or 'Gt'"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		errs = append(errs, checks.LabelKey(r.Key, at.Child("key"))...)
		for j, v := range r.Values {
			if values {
				errs = append(errs, problems(v, at.Child("values").Index(j), utilvalidation.IsValidLabelValue)...)
			}
		}
	}
	for i := range t.MatchFields {
		errs = append(errs, nodeField(&t.MatchFields[i], path.Child("matchFields").Index(i))...)
	}
	return errs
}

// nodeField checks a requirement on a field of the node; only its name can be asked for.
func nodeField(r *corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(at.Child("values"),
				"must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(at.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, v := range r.Values {
		errs = append(errs, problems(v, at.Child("values").Index(i), checks.Subdomain)...)
	}
	return errs
}

func (b *oldState) podTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range required {
		errs = append(errs, b.podTerm(&required[i],
			path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))...)
	}
	for i := range preferred {
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, weight(preferred[i].Weight, at.Child("weight"))...)
		errs = append(errs, b.podTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return errs
}

func (b *oldState) podTerm(t *corev1.PodAffinityTerm, at *field.Path) field.ErrorList {
	errs := b.selector(t.LabelSelector, at.Child("labelSelector"))
	errs = append(errs, b.selector(t.NamespaceSelector, at.Child("namespaceSelector"))...)
	for _, name := range t.Namespaces {
		errs = append(errs, problems(name, at.Child("namespace"), namespaceName)...)
	}
	errs = append(errs, ownKeys(t.MatchLabelKeys, t.LabelSelector, at.Child("matchLabelKeys"))...)
	errs = append(errs, ownKeys(t.MismatchLabelKeys, t.LabelSelector, at.Child("mismatchLabelKeys"))...)
	if t.LabelSelector != nil {
		errs = append(errs, ownTwice(t.MatchLabelKeys, t.LabelSelector, at)...)
	}
	for i, key := range t.MatchLabelKeys {
		if slices.Contains(t.MismatchLabelKeys, key) {
			errs = append(errs, field.Invalid(at.Child("matchLabelKeys").Index(i), key,
				"exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, checks.LabelKey(t.TopologyKey, at.Child("topologyKey"))...)
}

func namespaceName(name string) []string { return validation.ValidateNamespaceName(name, false) }

// ownKeys checks the label keys whose values are taken from the pod itself.
func ownKeys(keys []string, s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if len(keys) == 0 {
		return nil
	}
	if s == nil {
		return field.ErrorList{field.Forbidden(path, "must not be specified when labelSelector is not set")}
	}
	var errs field.ErrorList
	for i, key := range keys {
		errs = append(errs, checks.LabelKey(key, path.Index(i))...)
	}
	return errs
}

// mergedKeys checks keys whose values were taken from the pod into the selector already.
func mergedKeys(keys []string, s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	errs := ownKeys(keys, s, at.Child("matchLabelKeys"))
	if s != nil {
		errs = append(errs, ownTwice(keys, s, at)...)
	}
	return errs
}

// unmergedKeys checks keys of which the selector may say nothing.
func unmergedKeys(keys []string, s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s == nil {
		errs = append(errs, field.Forbidden(path, "must not be specified when labelSelector is not set"))
		s = &metav1.LabelSelector{}
	}
	spoken := sets.KeySet(s.MatchLabels)
	for _, r := range s.MatchExpressions {
		spoken.Insert(r.Key)
	}
	for i, key := range keys {
		errs = append(errs, checks.LabelKey(key, path.Index(i))...)
		if spoken.Has(key) {
			errs = append(errs, field.Invalid(path.Index(i), key, "exists in both matchLabelKeys and labelSelector"))
		}
	}
	return errs
}

// ownTwice checks that the selector speaks once of a key whose value is taken from the pod: that is what was made of
// the key when the pod came (mergeMatchLabelKeys), all else is the client's.
func ownTwice(keys []string, s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	index, times := map[string]int{}, map[string]int{}
	for i, key := range keys {
		index[key] = i
	}
	var errs field.ErrorList
	count := func(key string) {
		i, own := index[key]
		if times[key]++; own && times[key] > 1 {
			errs = append(errs, field.Invalid(at.Index(i), key, "exists in both matchLabelKeys and labelSelector"))
		}
	}
	for _, key := range sortedKeys(s.MatchLabels) {
		count(key)
	}
	for _, r := range s.MatchExpressions {
		count(r.Key)
	}
	return errs
}

func selector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	keys := slices.AppendSeq(make([]K, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys
}
