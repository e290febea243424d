// Package flowcontrol holds what flow schemas and priority levels need beyond their rows. It is pure.
package flowcontrol

import (
	"cmp"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// Defaults.
const (
	precedence  = 1000
	shares      = 30
	queues      = 64
	handSize    = 8
	queueLength = 50
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
func SchemaRow(s *flowcontrolv1.FlowSchema) []any {
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
		show.Age(s.CreationTimestamp), missing}
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
func LevelRow(l *flowcontrolv1.PriorityLevelConfiguration) []any {
	var n, q, h, length any = show.None, show.None, show.None, show.None
	if limited := l.Spec.Limited; limited != nil {
		n = limited.NominalConcurrencyShares
		if c := limited.LimitResponse.Queuing; c != nil {
			q, h, length = c.Queues, c.HandSize, c.QueueLengthLimit
		}
	}
	return []any{l.Name, string(l.Spec.Type), n, q, h, length, show.Age(l.CreationTimestamp)}
}
