package flowcontrol

import (
	"cmp"
	"context"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var flowSchemaParts = api.Parts[*flowcontrolv1.FlowSchema, flowcontrolv1.FlowSchemaSpec,
	flowcontrolv1.FlowSchemaStatus]{
	Spec:   func(s *flowcontrolv1.FlowSchema) *flowcontrolv1.FlowSchemaSpec { return &s.Spec },
	Status: func(s *flowcontrolv1.FlowSchema) *flowcontrolv1.FlowSchemaStatus { return &s.Status },
}

func flowSchemas() *api.Kind {
	return api.Define(api.Row[*flowcontrolv1.FlowSchema]{
		Name: "FlowSchema", Resource: "flowschemas", Cluster: true,
		Hub:     flowcontrolv1.SchemeGroupVersion,
		Default: DefaultSchema,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*flowcontrolv1beta3.FlowSchema](flowcontrolv1beta3.SchemeGroupVersion,
				DefaultSchema),
			api.RemovedTwin[*flowcontrolv1beta2.FlowSchema](flowcontrolv1beta2.SchemeGroupVersion,
				DefaultSchema),
			api.RemovedTwin[*flowcontrolv1beta1.FlowSchema](flowcontrolv1beta1.SchemeGroupVersion,
				DefaultSchema),
		},
		Strategy: api.Strategy[*flowcontrolv1.FlowSchema]{
			Meta:                api.MetaObjects,
			PrepareCreate:       flowSchemaParts.Create,
			PrepareUpdate:       flowSchemaParts.Update,
			Validate:            api.OfObject(ValidateSchema),
			ValidateUpdate:      api.OfChange(api.IgnoreOld(ValidateSchema)),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*flowcontrolv1.FlowSchema]{
			Meta:          api.MetaNothing,
			PrepareUpdate: flowSchemaParts.StatusUpdateAlone,
			ValidateUpdate: func(_ context.Context, new, _ *flowcontrolv1.FlowSchema) field.ErrorList {
				return ValidateSchemaStatus(&new.Status)
			},
			Reset: []string{"metadata", "spec"},
		},
		Columns:  SchemaColumns(),
		RowOrder: SchemaOrder,
		Row:      SchemaRow,
	})
}

// precedence is the default of a flow schema's matchingPrecedence.
const precedence = 1000

// DefaultSchema sets the defaults of a flow schema.
func DefaultSchema(s *flowcontrolv1.FlowSchema) {
	if s.Spec.MatchingPrecedence == 0 {
		s.Spec.MatchingPrecedence = precedence
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
