package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

var (
	quotaScopes = sets.New(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
		corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass,
		corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass)
	// computeResources are those that pods ask for, as far as scopes may go with them.
	computeResources = sets.New(corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU,
		corev1.ResourceLimitsMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory)
	// quotaResources are all names without a domain that a quota may have, besides pages.
	quotaResources = sets.New(corev1.ResourceEphemeralStorage, corev1.ResourceRequestsStorage,
		corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage, corev1.ResourcePods,
		corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourcePersistentVolumeClaims, corev1.ResourceConfigMaps, corev1.ResourceServicesNodePorts,
		corev1.ResourceServicesLoadBalancers).Union(computeResources)
)

const notForResource = "unsupported scope applied to resource"

// ValidateQuota checks a resource quota.
func ValidateQuota(q *corev1.ResourceQuota) field.ErrorList {
	errs := quotaList(q.Spec.Hard, field.NewPath("spec", "hard"))
	at := field.NewPath("spec", "scopes")
	for _, s := range q.Spec.Scopes {
		if !quotaScopes.Has(s) {
			errs = append(errs, field.Invalid(at, q.Spec.Scopes, "unsupported scope"))
		}
		for range misfits(s, q.Spec.Hard) {
			errs = append(errs, field.Invalid(at, q.Spec.Scopes, notForResource))
		}
	}
	errs = append(errs, conflictingScopes(sets.New(q.Spec.Scopes...), q, at)...)
	return append(errs, validateScopeSelector(q, field.NewPath("spec", "scopeSelector", "matchExpressions"))...)
}

// misfits counts the resources that a scope does not go with.
func misfits(s corev1.ResourceQuotaScope, hard corev1.ResourceList) int {
	n := 0
	for name := range hard {
		if standardQuota(name) && !scopeFits(s, name) {
			n++
		}
	}
	return n
}

func scopeFits(s corev1.ResourceQuotaScope, n corev1.ResourceName) bool {
	switch s {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
		corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return n == corev1.ResourcePods || computeResources.Has(n)
	case corev1.ResourceQuotaScopeBestEffort:
		return n == corev1.ResourcePods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return n == corev1.ResourcePersistentVolumeClaims || n == corev1.ResourceRequestsStorage
	}
	return true
}

func conflictingScopes(s sets.Set[corev1.ResourceQuotaScope], q *corev1.ResourceQuota, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, pair := range [][]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if s.HasAll(pair...) {
			errs = append(errs, field.Invalid(at, q.Spec.Scopes, "conflicting scopes"))
		}
	}
	return errs
}

func validateScopeSelector(q *corev1.ResourceQuota, at *field.Path) field.ErrorList {
	if q.Spec.ScopeSelector == nil {
		return nil
	}
	var errs field.ErrorList
	seen := sets.New[corev1.ResourceQuotaScope]()
	for _, r := range q.Spec.ScopeSelector.MatchExpressions {
		if !quotaScopes.Has(r.ScopeName) {
			errs = append(errs, field.Invalid(at.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		for range misfits(r.ScopeName, q.Spec.Hard) {
			errs = append(errs, field.Invalid(at, checks.Unversioned(q.Spec.ScopeSelector), notForResource))
		}
		switch r.ScopeName {
		case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
			corev1.ResourceQuotaScopeTerminating,
			corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
			if r.Operator != corev1.ScopeSelectorOpExists {
				errs = append(errs, field.Invalid(at.Child("operator"), r.Operator,
					"must be 'Exists' when scope is any of "+
						"ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "+
						"ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
			}
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"),
					"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) != 0 {
				errs = append(errs, field.Invalid(at.Child("values"), r.Values,
					"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		seen.Insert(r.ScopeName)
	}
	return append(errs, conflictingScopes(seen, q, at)...)
}

func standardQuota(n corev1.ResourceName) bool {
	return quotaResources.Has(n) || strings.HasPrefix(string(n), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(n), corev1.ResourceRequestsHugePagesPrefix)
}

func quotaList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range slices.Sorted(maps.Keys(list)) {
		at := path.Key(string(n))
		errs = append(errs, podspec.QualifiedResource(n, at)...)
		if !strings.Contains(string(n), "/") && !standardQuota(n) {
			errs = append(errs, field.Invalid(at, n, "must be a standard resource for quota"))
		}
		errs = append(errs, podspec.Quantity(n, list[n], at)...)
	}
	return errs
}

// ValidateQuotaUpdate checks a change: scopes stay.
func ValidateQuotaUpdate(new, old *corev1.ResourceQuota) field.ErrorList {
	errs := ValidateQuota(new)
	if !sets.New(new.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "scopes"), new.Spec.Scopes, "field is immutable"))
	}
	return errs
}

// ValidateQuotaStatus checks a change of the status.
func ValidateQuotaStatus(new, _ *corev1.ResourceQuota) field.ErrorList {
	return append(quotaList(new.Status.Hard, field.NewPath("status", "hard")),
		quotaList(new.Status.Used, field.NewPath("status", "used"))...)
}

// QuotaWarnings tells, of a new quota, where it gives more to requests than to limits.
func QuotaWarnings(q, old *corev1.ResourceQuota) []string {
	if old != nil {
		return nil
	}
	var out []string
	for _, n := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage,
		corev1.ResourceEphemeralStorage} {
		name := corev1.DefaultResourceRequestsPrefix + n
		request, ok := q.Spec.Hard[name]
		if !ok && (n == corev1.ResourceCPU || n == corev1.ResourceMemory) {
			name = n
			request, ok = q.Spec.Hard[name]
		}
		limit, limited := q.Spec.Hard["limits."+n]
		if ok && limited && request.Cmp(limit) > 0 {
			out = append(out, fmt.Sprintf("ResourceQuota %s (%s) should be less than limits.%s (%s)", name,
				request.String(), n, limit.String()))
		}
	}
	return out
}
