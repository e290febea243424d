package reviews

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// fieldRequirements reads a selector (KEP-4601). What it can't read it leaves out: the user then is asked about for
// more objects, never for fewer.
func fieldRequirements(s *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if len(s.Requirements) == 0 {
		if s.RawSelector == "" {
			return nil, nil
		}
		parsed, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, fmt.Errorf("parsing fieldSelector.rawSelector: %w", err)
		}
		return parsed.Requirements(), nil
	}
	var out fields.Requirements
	var errs []error
	for i, r := range s.Requirements {
		var operator selection.Operator
		switch {
		case r.Operator == metav1.FieldSelectorOpIn && len(r.Values) == 1:
			operator = selection.Equals
		case r.Operator == metav1.FieldSelectorOpNotIn && len(r.Values) == 1:
			operator = selection.NotEquals
		case r.Operator == metav1.FieldSelectorOpIn || r.Operator == metav1.FieldSelectorOpNotIn:
			errs = append(errs, fmt.Errorf(
				"fieldSelector.requirements[%d].values must have one value for the operator %q", i, r.Operator))
			continue
		default:
			errs = append(errs, fmt.Errorf("fieldSelector.requirements[%d].operator: %q is not supported", i,
				r.Operator))
			continue
		}
		out = append(out, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
	}
	return out, utilerrors.NewAggregate(errs)
}

// labelRequirements is fieldRequirements for labels.
func labelRequirements(s *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if len(s.Requirements) == 0 {
		if s.RawSelector == "" {
			return nil, nil
		}
		parsed, err := labels.Parse(s.RawSelector)
		if err != nil {
			return nil, fmt.Errorf("parsing labelSelector.rawSelector: %w", err)
		}
		requirements, _ := parsed.Requirements()
		return requirements, nil
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var out labels.Requirements
	var errs []error
	for i, r := range s.Requirements {
		operator, ok := operators[r.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("labelSelector.requirements[%d].operator: %q is not supported", i,
				r.Operator))
			continue
		}
		requirement, err := labels.NewRequirement(r.Key, operator, r.Values)
		if err != nil {
			errs = append(errs, fmt.Errorf("labelSelector.requirements[%d]: %w", i, err))
			continue
		}
		out = append(out, *requirement)
	}
	return out, utilerrors.NewAggregate(errs)
}
