package snapshot

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Affinity is a pod's inter-pod affinity with its selectors parsed.
type Affinity struct {
	Required, AntiRequired   []Term
	Preferred, AntiPreferred []Term
}

// Empty tells whether the pod has no inter-pod terms at all.
func (a *Affinity) Empty() bool {
	return len(a.Required)+len(a.AntiRequired)+len(a.Preferred)+len(a.AntiPreferred) == 0
}

// Term is one affinity term; Weight is 0 for required ones.
type Term struct {
	TopologyKey       string
	Weight            int32
	selector          labels.Selector
	namespaces        []string
	namespaceSelector labels.Selector
}

// NamespaceLabels returns the labels of a namespace; none for one that is not known.
type NamespaceLabels func(namespace string) labels.Set

// Matches tells whether the term selects pods with these labels in this namespace.
func (t *Term) Matches(namespace string, set labels.Set, namespaces NamespaceLabels) bool {
	return t.selects(namespace, namespaces) && t.selector.Matches(set)
}

// MayMatch is Matches where namespaces are not at hand: a namespace selector is taken to match.
func (t *Term) MayMatch(namespace string, set labels.Set) bool {
	return t.selector.Matches(set) && (t.namespaceSelector != labels.Nothing() || t.selects(namespace, none))
}

func none(string) labels.Set { return nil }

func (t *Term) selects(namespace string, namespaces NamespaceLabels) bool {
	for _, n := range t.namespaces {
		if n == namespace {
			return true
		}
	}
	return t.namespaceSelector.Empty() || t.namespaceSelector.Matches(namespaces(namespace))
}

func parseAffinity(pod *v1.Pod) (a Affinity, err error) {
	if pod.Spec.Affinity == nil {
		return a, nil
	}
	if with := pod.Spec.Affinity.PodAffinity; with != nil {
		if a.Required, err = parseTerms(pod, with.RequiredDuringSchedulingIgnoredDuringExecution); err != nil {
			return a, err
		}
		if a.Preferred, err = parseWeighted(pod, with.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
			return a, err
		}
	}
	if without := pod.Spec.Affinity.PodAntiAffinity; without != nil {
		if a.AntiRequired, err = parseTerms(pod, without.RequiredDuringSchedulingIgnoredDuringExecution); err != nil {
			return a, err
		}
		if a.AntiPreferred, err = parseWeighted(pod,
			without.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
			return a, err
		}
	}
	return a, nil
}

func parseTerms(pod *v1.Pod, terms []v1.PodAffinityTerm) ([]Term, error) {
	var parsed []Term
	for i := range terms {
		t, err := parseTerm(pod, &terms[i], 0)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, t)
	}
	return parsed, nil
}

func parseWeighted(pod *v1.Pod, terms []v1.WeightedPodAffinityTerm) ([]Term, error) {
	var parsed []Term
	for i := range terms {
		t, err := parseTerm(pod, &terms[i].PodAffinityTerm, terms[i].Weight)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, t)
	}
	return parsed, nil
}

// parseTerm reads matchLabelKeys as the API server left them: merged into the selector.
func parseTerm(pod *v1.Pod, term *v1.PodAffinityTerm, weight int32) (Term, error) {
	t := Term{TopologyKey: term.TopologyKey, Weight: weight, namespaces: term.Namespaces}
	var err error
	if t.selector, err = metav1.LabelSelectorAsSelector(term.LabelSelector); err != nil {
		return t, fmt.Errorf("pod affinity term on %q: label selector: %w", term.TopologyKey, err)
	}
	if t.namespaceSelector, err = metav1.LabelSelectorAsSelector(term.NamespaceSelector); err != nil {
		return t, fmt.Errorf("pod affinity term on %q: namespace selector: %w", term.TopologyKey, err)
	}
	if len(term.Namespaces) == 0 && term.NamespaceSelector == nil {
		t.namespaces = []string{pod.Namespace}
	}
	return t, nil
}
