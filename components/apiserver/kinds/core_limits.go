package kinds

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

var quotaParts = parts[*corev1.ResourceQuota, corev1.ResourceQuotaSpec, corev1.ResourceQuotaStatus]{
	spec:   func(q *corev1.ResourceQuota) *corev1.ResourceQuotaSpec { return &q.Spec },
	status: func(q *corev1.ResourceQuota) *corev1.ResourceQuotaStatus { return &q.Status },
}

func resourceQuotas() *Kind {
	return define(row[*corev1.ResourceQuota]{
		Name: "ResourceQuota", Resource: "resourcequotas", ShortNames: []string{"quota"},
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultQuota,
		Strategy: strategy[*corev1.ResourceQuota]{
			PrepareCreate:       quotaParts.plainCreate,
			PrepareUpdate:       quotaParts.keepStatus,
			Validate:            core.ValidateQuota,
			ValidateUpdate:      core.ValidateQuotaUpdate,
			Warnings:            core.QuotaWarnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*corev1.ResourceQuota]{
			PrepareUpdate:  quotaParts.statusUpdate,
			ValidateUpdate: core.ValidateQuotaStatus,
			Reset:          []string{"spec"},
		},
		Columns: core.QuotaColumns(),
		Row:     core.QuotaRow,
	})
}

func limitRanges() *Kind {
	return define(row[*corev1.LimitRange]{
		Name: "LimitRange", Resource: "limitranges", ShortNames: []string{"limits"},
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultLimitRange,
		Strategy: strategy[*corev1.LimitRange]{
			Meta:                MetaObjects,
			PrepareCreate:       core.NameLimitRange,
			Validate:            core.ValidateLimitRange,
			ValidateUpdate:      func(new, _ *corev1.LimitRange) field.ErrorList { return core.ValidateLimitRange(new) },
			ValidateName:        validation.NameIsDNSSubdomain,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
	})
}
