package kinds

import (
	"context"

	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/scheduling"
)

func priorityClasses() *Kind {
	return define(row[*schedulingv1.PriorityClass]{
		Name: "PriorityClass", Resource: "priorityclasses", ShortNames: []string{"pc"}, Cluster: true,
		Hub:     schedulingv1.SchemeGroupVersion,
		Default: scheduling.Default,
		Former:  []Version{formerTwin[*schedulingv1beta1.PriorityClass](schedulingv1beta1.SchemeGroupVersion, scheduling.Default)},
		Strategy: strategy[*schedulingv1.PriorityClass]{
			PrepareCreate:       func(_ context.Context, c *schedulingv1.PriorityClass) { c.Generation = 1 },
			Validate:            scheduling.Validate,
			ValidateUpdate:      scheduling.ValidateUpdate,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: scheduling.Columns(),
		Row:     scheduling.Row,
	})
}
