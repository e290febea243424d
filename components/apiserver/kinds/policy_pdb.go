package kinds

import (
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/policy"
)

var budgetParts = parts[*policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetSpec, policyv1.PodDisruptionBudgetStatus]{
	spec:   func(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudgetSpec { return &b.Spec },
	status: func(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudgetStatus { return &b.Status },
}

func podDisruptionBudgets() *Kind {
	return define(row[*policyv1.PodDisruptionBudget]{
		Name: "PodDisruptionBudget", Resource: "poddisruptionbudgets", ShortNames: []string{"pdb"},
		Hub:     policyv1.SchemeGroupVersion,
		Default: policy.Default,
		Former:  []Version{formerTwin[*policyv1beta1.PodDisruptionBudget](policyv1beta1.SchemeGroupVersion, policy.DefaultV1beta1)},
		Strategy: strategy[*policyv1.PodDisruptionBudget]{
			Meta: MetaNothing, AnyFinalizer: true,
			PrepareCreate:  budgetParts.create,
			PrepareUpdate:  budgetParts.update,
			Validate:       func(b *policyv1.PodDisruptionBudget) field.ErrorList { return policy.Validate(b, nil) },
			ValidateUpdate: policy.Validate,
			ValidateName:   validation.NameIsDNSSubdomain,
			Reset:          []string{"status"},
		},
		Status: &strategy[*policyv1.PodDisruptionBudget]{
			Meta: MetaNothing, AnyFinalizer: true,
			PrepareUpdate:  budgetParts.statusUpdate,
			ValidateUpdate: policy.ValidateStatus,
			Reset:          []string{"spec"},
		},
		Columns: policy.Columns(),
		Row:     policy.Row,
	})
}
