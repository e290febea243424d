package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/uuid"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var quotaParts = api.Parts[*corev1.ResourceQuota, corev1.ResourceQuotaSpec, corev1.ResourceQuotaStatus]{
	Spec:   func(q *corev1.ResourceQuota) *corev1.ResourceQuotaSpec { return &q.Spec },
	Status: func(q *corev1.ResourceQuota) *corev1.ResourceQuotaStatus { return &q.Status },
}

func resourceQuotas() *api.Kind {
	return api.Define(api.Row[*corev1.ResourceQuota]{
		Name: "ResourceQuota", Resource: "resourcequotas", ShortNames: []string{"quota"},
		Hub:     corev1.SchemeGroupVersion,
		Default: DefaultQuota,
		Strategy: api.Strategy[*corev1.ResourceQuota]{
			PrepareCreate:       quotaParts.PlainCreate,
			PrepareUpdate:       quotaParts.KeepStatus,
			Validate:            api.OfObject(ValidateQuota),
			ValidateUpdate:      api.OfChange(ValidateQuotaUpdate),
			Warnings:            api.OfChange(QuotaWarnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*corev1.ResourceQuota]{
			PrepareUpdate:  quotaParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateQuotaStatus),
			Reset:          []string{"spec"},
		},
		Columns: QuotaColumns(),
		Row:     QuotaRow,
	})
}

func limitRanges() *api.Kind {
	return api.Define(api.Row[*corev1.LimitRange]{
		Name: "LimitRange", Resource: "limitranges", ShortNames: []string{"limits"},
		Hub:     corev1.SchemeGroupVersion,
		Default: DefaultLimitRange,
		Strategy: api.Strategy[*corev1.LimitRange]{
			Meta:                api.MetaObjects,
			PrepareCreate:       NameLimitRange,
			Validate:            api.OfObject(ValidateLimitRange),
			ValidateUpdate:      api.OfChange(api.IgnoreOld(ValidateLimitRange)),
			ValidateName:        validation.NameIsDNSSubdomain,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
	})
}

// DefaultLimitRange derives what the bounds of containers imply: limits from maxima, requests from limits, then minima.
func DefaultLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest,
			item.MaxLimitRequestRatio} {
			podspec.RoundUp(list)
		}
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		if item.Default == nil {
			item.Default = corev1.ResourceList{}
		}
		if item.DefaultRequest == nil {
			item.DefaultRequest = corev1.ResourceList{}
		}
		fill(item.Default, item.Max)
		fill(item.DefaultRequest, item.Default)
		fill(item.DefaultRequest, item.Min)
	}
}

// NameLimitRange gives one that has no name some.
func NameLimitRange(_ context.Context, l *corev1.LimitRange) {
	if l.Name == "" {
		l.Name = string(uuid.NewUUID())
	}
}

func fill(into, from corev1.ResourceList) {
	for name, q := range from {
		if _, set := into[name]; !set {
			into[name] = q.DeepCopy()
		}
	}
}

// DefaultQuota rounds what is counted.
func DefaultQuota(q *corev1.ResourceQuota) {
	for _, list := range []corev1.ResourceList{q.Spec.Hard, q.Status.Hard, q.Status.Used} {
		podspec.RoundUp(list)
	}
}

// QuotaColumns are the columns of resource quotas.
func QuotaColumns() show.Columns {
	return show.Name().
		String("Request", "Request represents a minimum amount of cpu/memory that a container may consume.").
		String("Limit",
			"Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.").
		Age()
}

// QuotaRow are the cells of a resource quota.
func QuotaRow(q *corev1.ResourceQuota) []any {
	names := make([]string, 0, len(q.Status.Hard))
	for name := range q.Status.Hard {
		names = append(names, string(name))
	}
	slices.Sort(names)
	var requests, limits []string
	for _, name := range names {
		used, hard := q.Status.Used[corev1.ResourceName(name)], q.Status.Hard[corev1.ResourceName(name)]
		text := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(name, "limits.") {
			limits = append(limits, text)
		} else {
			requests = append(requests, text)
		}
	}
	return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), show.Age(q.CreationTimestamp)}
}
