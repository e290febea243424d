package apps

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// selection is how a kind of workload finds its pods, and in what the kinds differ about it.
type selection struct {
	kind     string // as the error about an empty selector calls it
	pods     string // as the error about a deadline calls it
	required bool
	detail   string // of the error about a selector that can't be used
	options  metavalidation.LabelSelectorValidationOptions
}

// selector checks a selector and returns it parsed: nil if it can't be used, and matching nothing if there is none.
func (w selection) selector(s *metav1.LabelSelector, at *field.Path) (labels.Selector, field.ErrorList) {
	var errs field.ErrorList
	if s == nil && w.required {
		errs = append(errs, field.Required(at, ""))
	}
	if s != nil {
		errs = metavalidation.ValidateLabelSelector(s, w.options, at)
		if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(at, s, "empty selector is invalid for "+w.kind))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		if w.required {
			errs = append(errs, field.Invalid(at, s, w.detail))
		}
		return nil, errs
	}
	return selector, errs
}

// endless checks the template of pods that are meant to run for ever, and that the selector, if it could be read, finds
// them. old is the template as it was, nil if it is new.
func (r Rules) endless(w selection, t, old *corev1.PodTemplateSpec, selector labels.Selector,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if selector != nil {
		errs = append(errs, podspec.ValidateFound(t, selector, path)...)
	}
	errs = append(errs, r.Pods.ValidateTemplate(t, old, path)...)
	return append(errs, podspec.ValidateEndless(&t.Spec, w.pods, path.Child("spec"))...)
}
