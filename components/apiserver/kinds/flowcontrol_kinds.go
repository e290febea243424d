package kinds

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/flowcontrol"
)

var flowSchemaParts = parts[*flowcontrolv1.FlowSchema, flowcontrolv1.FlowSchemaSpec, flowcontrolv1.FlowSchemaStatus]{
	spec:   func(s *flowcontrolv1.FlowSchema) *flowcontrolv1.FlowSchemaSpec { return &s.Spec },
	status: func(s *flowcontrolv1.FlowSchema) *flowcontrolv1.FlowSchemaStatus { return &s.Status },
}

func flowSchemas() *Kind {
	return define(row[*flowcontrolv1.FlowSchema]{
		Name: "FlowSchema", Resource: "flowschemas", Cluster: true,
		Hub:     flowcontrolv1.SchemeGroupVersion,
		Default: flowcontrol.DefaultSchema,
		Former: []Version{
			formerTwin[*flowcontrolv1beta3.FlowSchema](flowcontrolv1beta3.SchemeGroupVersion, flowcontrol.DefaultSchema),
			formerTwin[*flowcontrolv1beta2.FlowSchema](flowcontrolv1beta2.SchemeGroupVersion, flowcontrol.DefaultSchema),
			formerTwin[*flowcontrolv1beta1.FlowSchema](flowcontrolv1beta1.SchemeGroupVersion, flowcontrol.DefaultSchema),
		},
		Strategy: strategy[*flowcontrolv1.FlowSchema]{
			Meta:                MetaObjects,
			PrepareCreate:       flowSchemaParts.create,
			PrepareUpdate:       flowSchemaParts.update,
			Validate:            flowcontrol.ValidateSchema,
			ValidateUpdate:      func(new, _ *flowcontrolv1.FlowSchema) field.ErrorList { return flowcontrol.ValidateSchema(new) },
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*flowcontrolv1.FlowSchema]{
			Meta:          MetaNothing,
			PrepareUpdate: flowSchemaParts.statusUpdateAlone,
			ValidateUpdate: func(new, _ *flowcontrolv1.FlowSchema) field.ErrorList {
				return flowcontrol.ValidateSchemaStatus(&new.Status)
			},
			Reset: []string{"metadata", "spec"},
		},
		Columns:  flowcontrol.SchemaColumns(),
		RowOrder: flowcontrol.SchemaOrder,
		Row:      flowcontrol.SchemaRow,
	})
}

var priorityLevelParts = parts[*flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1.PriorityLevelConfigurationSpec, flowcontrolv1.PriorityLevelConfigurationStatus]{
	spec: func(l *flowcontrolv1.PriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfigurationSpec {
		return &l.Spec
	},
	status: func(l *flowcontrolv1.PriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfigurationStatus {
		return &l.Status
	},
}

func priorityLevels() *Kind {
	return define(row[*flowcontrolv1.PriorityLevelConfiguration]{
		Name: "PriorityLevelConfiguration", Resource: "prioritylevelconfigurations", Cluster: true,
		Hub:     flowcontrolv1.SchemeGroupVersion,
		Default: flowcontrol.DefaultLevel,
		Former: []Version{
			former(flowcontrolv1beta3.SchemeGroupVersion, flowcontrol.LevelFromV1beta3, flowcontrol.DefaultLevel),
			former(flowcontrolv1beta2.SchemeGroupVersion, flowcontrol.LevelFromV1beta2, flowcontrol.DefaultLevel),
			formerLike[*flowcontrolv1beta1.PriorityLevelConfiguration](flowcontrolv1beta1.SchemeGroupVersion, flowcontrol.LevelFromV1beta2, flowcontrol.DefaultLevel),
		},
		Strategy: strategy[*flowcontrolv1.PriorityLevelConfiguration]{
			Meta:          MetaObjects,
			PrepareCreate: priorityLevelParts.create,
			PrepareUpdate: priorityLevelParts.update,
			Validate:      flowcontrol.ValidateLevel,
			ValidateUpdate: func(new, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
				return flowcontrol.ValidateLevel(new)
			},
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*flowcontrolv1.PriorityLevelConfiguration]{
			Meta:          MetaNothing,
			PrepareUpdate: priorityLevelParts.statusUpdateAlone,
			ValidateUpdate: func(new, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
				return flowcontrol.ValidateLevelStatus(&new.Status)
			},
			Reset: []string{"metadata", "spec"},
		},
		Columns: flowcontrol.LevelColumns(),
		Row:     flowcontrol.LevelRow,
	})
}
