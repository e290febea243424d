// Package flowcontrol holds what flow schemas and priority levels need beyond their rows. It is pure.
package flowcontrol

import (
	"cmp"
	"fmt"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// Defaults and bounds.
const (
	precedence    = 1000
	maxPrecedence = 10_000
	shares        = 30
	queues        = 64
	handSize      = 8
	queueLength   = 50
	maxQueues     = 10_000_000
)

// DefaultSchema sets the defaults of a flow schema.
func DefaultSchema(s *flowcontrolv1.FlowSchema) {
	if s.Spec.MatchingPrecedence == 0 {
		s.Spec.MatchingPrecedence = precedence
	}
}

// DefaultLevel sets the defaults of a priority level.
func DefaultLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	if e := l.Spec.Exempt; e != nil {
		setDefault(&e.NominalConcurrencyShares, 0)
		setDefault(&e.LendablePercent, 0)
	}
	if limited := l.Spec.Limited; limited != nil {
		setDefault(&limited.NominalConcurrencyShares, shares)
		setDefault(&limited.LendablePercent, 0)
		if q := limited.LimitResponse.Queuing; q != nil {
			for value, fallback := range map[*int32]int32{&q.Queues: queues, &q.HandSize: handSize, &q.QueueLengthLimit: queueLength} {
				if *value == 0 {
					*value = fallback
				}
			}
		}
	}
}

func setDefault(p **int32, value int32) {
	if *p == nil {
		*p = &value
	}
}

// ValidateSchema checks a flow schema.
func ValidateSchema(s *flowcontrolv1.FlowSchema) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if p := s.Spec.MatchingPrecedence; p <= 0 {
		errs = append(errs, field.Invalid(at.Child("matchingPrecedence"), p, "must be a positive value"))
	} else if p > maxPrecedence {
		errs = append(errs, field.Invalid(at.Child("matchingPrecedence"), p, fmt.Sprintf("must not be greater than %v", maxPrecedence)))
	}
	if s.Spec.MatchingPrecedence == 1 && s.Name != flowcontrolv1.FlowSchemaNameExempt {
		errs = append(errs, field.Invalid(at.Child("matchingPrecedence"), 1, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if d := s.Spec.DistinguisherMethod; d != nil {
		errs = append(errs, checks.OneOf(d.Type, at.Child("distinguisherMethod", "type"),
			flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType)...)
	}
	errs = append(errs, checks.Required(s.Spec.PriorityLevelConfiguration.Name, at.Child("priorityLevelConfiguration", "name"))...)
	for i := range s.Spec.Rules {
		errs = append(errs, validateRule(&s.Spec.Rules[i], at.Child("rules").Index(i))...)
	}
	return errs
}

func validateRule(r *flowcontrolv1.PolicyRulesWithSubjects, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(at.Child("subjects"), "subjects must contain at least one value"))
	}
	for i, s := range r.Subjects {
		p := at.Child("subjects").Index(i)
		switch {
		case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount == nil:
			errs = append(errs, field.Required(p.Child("serviceAccount"), "serviceAccount is required when subject kind is 'ServiceAccount'"))
		case s.Kind == flowcontrolv1.SubjectKindUser && s.User == nil:
			errs = append(errs, field.Required(p.Child("user"), "user is required when subject kind is 'User'"))
		case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group == nil:
			errs = append(errs, field.Required(p.Child("group"), "group is required when subject kind is 'Group'"))
		default:
			errs = append(errs, checks.OneOf(s.Kind, p.Child("kind"), flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser)...)
		}
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(at, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i, rr := range r.ResourceRules {
		p := at.Child("resourceRules").Index(i)
		for name, n := range map[string]int{"verbs": len(rr.Verbs), "apiGroups": len(rr.APIGroups), "resources": len(rr.Resources)} {
			if n == 0 {
				errs = append(errs, field.Required(p.Child(name), ""))
			}
		}
		if len(rr.Namespaces) == 0 && !rr.ClusterScope {
			errs = append(errs, field.Required(p.Child("namespaces"), "resource rules that are not cluster scoped must supply at least one namespace"))
		}
	}
	for i, nr := range r.NonResourceRules {
		p := at.Child("nonResourceRules").Index(i)
		if len(nr.Verbs) == 0 {
			errs = append(errs, field.Required(p.Child("verbs"), "verbs must contain at least one value"))
		}
		if len(nr.NonResourceURLs) == 0 {
			errs = append(errs, field.Required(p.Child("nonResourceURLs"), "nonResourceURLs must contain at least one value"))
		}
	}
	return errs
}

// ValidateLevel checks a priority level.
func ValidateLevel(l *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	at, s := field.NewPath("spec"), &l.Spec
	exempt := l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt
	var errs field.ErrorList
	if exempt && s.Type != flowcontrolv1.PriorityLevelEnablementExempt {
		errs = append(errs, field.Invalid(at.Child("type"), s.Type, "type must be 'Exempt' if and only if name is 'exempt'"))
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Limited != nil {
			errs = append(errs, field.Forbidden(at.Child("limited"), "must be nil if the type is not Limited"))
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
		errs = append(errs, field.NotSupported(at.Child("type"), s.Type, []flowcontrolv1.PriorityLevelEnablement{
			flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited}))
	}
	return errs
}

func validateLimited(l *flowcontrolv1.LimitedPriorityLevelConfiguration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := l.NominalConcurrencyShares; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(at.Child("nominalConcurrencyShares"), *n, "must be a non-negative integer"))
	}
	if p := l.LendablePercent; p != nil && (*p < 0 || *p > 100) {
		errs = append(errs, field.Invalid(at.Child("lendablePercent"), *p, "must be between 0 and 100, inclusive"))
	}
	if p := l.BorrowingLimitPercent; p != nil && *p < 0 {
		errs = append(errs, field.Invalid(at.Child("borrowingLimitPercent"), *p, "if specified, must be a non-negative integer"))
	}
	response, q := at.Child("limitResponse"), l.LimitResponse.Queuing
	switch l.LimitResponse.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if q != nil {
			errs = append(errs, field.Forbidden(response.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited"))
		}
		return errs
	case flowcontrolv1.LimitResponseTypeQueue:
	default:
		return append(errs, field.NotSupported(response.Child("type"), l.LimitResponse.Type, []flowcontrolv1.LimitResponseType{
			flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject}))
	}
	if q == nil {
		return append(errs, field.Required(response.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited"))
	}
	at = response.Child("queuing")
	for name, n := range map[string]int32{"queueLengthLimit": q.QueueLengthLimit, "queues": q.Queues, "handSize": q.HandSize} {
		if n <= 0 {
			errs = append(errs, field.Invalid(at.Child(name), n, "must be positive"))
		}
	}
	if q.Queues > maxQueues {
		errs = append(errs, field.Invalid(at.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	if q.HandSize > q.Queues {
		errs = append(errs, field.Invalid(at.Child("handSize"), q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	}
	return errs
}

// SchemaColumns are the columns of flow schemas.
func SchemaColumns() show.Columns {
	doc := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return show.Name().
		String("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]).
		String("MatchingPrecedence", doc["matchingPrecedence"]).
		String("DistinguisherMethod", doc["distinguisherMethod"]).
		Age().
		String("MissingPL", "references a broken or non-existent PriorityLevelConfiguration")
}

// SchemaOrder is the order in which requests are matched.
func SchemaOrder(a, b *flowcontrolv1.FlowSchema) int {
	return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
}

// SchemaRow are the cells of a flow schema.
func SchemaRow(s *flowcontrolv1.FlowSchema, now time.Time) []any {
	method, missing := show.None, "?"
	if d := s.Spec.DistinguisherMethod; d != nil {
		method = string(d.Type)
	}
	for _, c := range s.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			missing = string(c.Status)
		}
	}
	return []any{s.Name, s.Spec.PriorityLevelConfiguration.Name, int64(s.Spec.MatchingPrecedence), method,
		show.Age(s.CreationTimestamp, now), missing}
}

// LevelColumns are the columns of priority levels.
func LevelColumns() show.Columns {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return show.Name().
		String("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]).
		String("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]).
		String("Queues", queuing["queues"]).
		String("HandSize", queuing["handSize"]).
		String("QueueLengthLimit", queuing["queueLengthLimit"]).
		Age()
}

// LevelRow are the cells of a priority level.
func LevelRow(l *flowcontrolv1.PriorityLevelConfiguration, now time.Time) []any {
	var n, q, h, length any = show.None, show.None, show.None, show.None
	if limited := l.Spec.Limited; limited != nil {
		n = limited.NominalConcurrencyShares
		if c := limited.LimitResponse.Queuing; c != nil {
			q, h, length = c.Queues, c.HandSize, c.QueueLengthLimit
		}
	}
	return []any{l.Name, string(l.Spec.Type), n, q, h, length, show.Age(l.CreationTimestamp, now)}
}
