package flowcontrol

import (
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

const maxQueues = 10_000_000

// ValidateLevel checks a priority level.
func ValidateLevel(l *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	// is for a version that is no longer served
	const note = flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey
	if _, has := l.Annotations[note]; has {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations"),
			fmt.Sprintf("annotation '%s' is forbidden", note)))
	}
	errs = append(errs, validateLevelSpec(l, at)...)
	errs = append(errs, validateFixed(l, at)...)
	return append(errs, ValidateLevelStatus(&l.Status)...)
}

// validateFixed checks that the mandatory levels stay what they are.
func validateFixed(l *flowcontrolv1.PriorityLevelConfiguration, at *field.Path) field.ErrorList {
	for _, fixed := range bootstrap.MandatoryPriorityLevelConfigurations {
		if fixed.Name != l.Name {
			continue
		}
		want, have, what := fixed.DeepCopy(), l.Spec.DeepCopy(), ""
		DefaultLevel(want)
		if l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			have.Exempt, what = want.Spec.Exempt, " except the 'spec.exempt' field"
		}
		if !apiequality.Semantic.DeepEqual(*have, want.Spec) {
			return field.ErrorList{field.Invalid(at, checks.Unversioned(l.Spec),
				fmt.Sprintf("spec of '%s'%s must equal the fixed value", l.Name, what))}
		}
	}
	return nil
}

// ValidateLevelStatus checks the status of a priority level.
func ValidateLevelStatus(s *flowcontrolv1.PriorityLevelConfigurationStatus) field.ErrorList {
	types := make([]flowcontrolv1.PriorityLevelConfigurationConditionType, len(s.Conditions))
	for i, c := range s.Conditions {
		types[i] = c.Type
	}
	return validateConditions(types)
}

func validateLevelSpec(l *flowcontrolv1.PriorityLevelConfiguration, at *field.Path) field.ErrorList {
	s := &l.Spec
	var errs field.ErrorList
	named := l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt
	if exempt := s.Type == flowcontrolv1.PriorityLevelEnablementExempt; named != exempt {
		errs = append(errs, field.Invalid(at.Child("type"), s.Type,
			"must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Limited != nil {
			errs = append(errs, field.Forbidden(at.Child("limited"), "must be nil if the type is not Limited"))
		}
		if e := s.Exempt; e != nil {
			errs = append(errs, validateShares(e.NominalConcurrencyShares, at.Child("exempt"))...)
			errs = append(errs, validateLendable(e.LendablePercent, at.Child("exempt"))...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Exempt != nil {
			errs = append(errs, field.Forbidden(at.Child("exempt"), "must be nil if the type is Limited"))
		}
		if s.Limited == nil {
			return append(errs, field.Required(at.Child("limited"), "must not be empty when type is Limited"))
		}
		errs = append(errs, validateLimited(s.Limited, at.Child("limited"))...)
	default:
		errs = append(errs, checks.OneOf(s.Type, at.Child("type"), flowcontrolv1.PriorityLevelEnablementExempt,
			flowcontrolv1.PriorityLevelEnablementLimited)...)
	}
	return errs
}

func validateShares(n *int32, at *field.Path) field.ErrorList {
	if n != nil && *n < 0 {
		return field.ErrorList{field.Invalid(at.Child("nominalConcurrencyShares"), *n,
			"must be a non-negative integer")}
	}
	return nil
}

func validateLendable(p *int32, at *field.Path) field.ErrorList {
	if p != nil && (*p < 0 || *p > 100) {
		return field.ErrorList{field.Invalid(at.Child("lendablePercent"), *p, "must be between 0 and 100, inclusive")}
	}
	return nil
}

func validateLimited(l *flowcontrolv1.LimitedPriorityLevelConfiguration, at *field.Path) field.ErrorList {
	errs := validateShares(l.NominalConcurrencyShares, at)
	errs = append(errs, validateResponse(&l.LimitResponse, at.Child("limitResponse"))...)
	errs = append(errs, validateLendable(l.LendablePercent, at)...)
	if p := l.BorrowingLimitPercent; p != nil && *p < 0 {
		errs = append(errs, field.Invalid(at.Child("borrowingLimitPercent"), *p,
			"if specified, must be a non-negative integer"))
	}
	return errs
}

func validateResponse(r *flowcontrolv1.LimitResponse, at *field.Path) field.ErrorList {
	queuing := at.Child("queuing")
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			return field.ErrorList{field.Forbidden(queuing, "must be nil if limited.limitResponse.type is not Limited")}
		}
		return nil
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			return field.ErrorList{field.Required(queuing,
				"must not be empty if limited.limitResponse.type is Limited")}
		}
		return validateQueuing(r.Queuing, queuing)
	}
	return checks.OneOf(r.Type, at.Child("type"), flowcontrolv1.LimitResponseTypeQueue,
		flowcontrolv1.LimitResponseTypeReject)
}

func validateQueuing(q *flowcontrolv1.QueuingConfiguration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(at.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	if q.Queues <= 0 {
		errs = append(errs, field.Invalid(at.Child("queues"), q.Queues, "must be positive"))
	} else if q.Queues > maxQueues {
		errs = append(errs, field.Invalid(at.Child("queues"), q.Queues,
			fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	hand := at.Child("handSize")
	if q.HandSize <= 0 {
		return append(errs, field.Invalid(hand, q.HandSize, "must be positive"))
	}
	if q.HandSize > q.Queues {
		return append(errs, field.Invalid(hand, q.HandSize,
			fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	}
	if bits := shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)); bits > shufflesharding.MaxHashBits {
		errs = append(errs, field.Invalid(hand, q.HandSize,
			fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
				q.Queues, q.HandSize, shufflesharding.MaxHashBits)))
	}
	return errs
}
