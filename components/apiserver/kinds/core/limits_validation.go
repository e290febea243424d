package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// ValidateLimitRange checks bounds: each kind of object once, and minimum ≤ default request ≤ default ≤ maximum.
func ValidateLimitRange(l *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.LimitType]()
	for i := range l.Spec.Limits {
		item, at := &l.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		errs = append(errs, limitTypeName(string(item.Type), at.Child("type"))...)
		if seen.Has(item.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), item.Type))
		}
		seen.Insert(item.Type)
		errs = append(errs, validateLimits(item, at)...)
	}
	return errs
}

func limitTypeName(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	if len(errs) == 0 && !strings.Contains(name, "/") {
		switch corev1.LimitType(name) {
		case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
		default:
			errs = append(errs, field.Invalid(at, name, "must be a standard limit type or fully qualified"))
		}
	}
	return errs
}

func validateLimits(item *corev1.LimitRangeItem, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[corev1.ResourceName]()
	for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
		for n := range list {
			names.Insert(n)
		}
	}
	if item.Type == corev1.LimitTypePod {
		if len(item.Default) > 0 {
			errs = append(errs, field.Forbidden(at.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(item.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(at.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, min := item.Min[corev1.ResourceStorage]
		_, max := item.Max[corev1.ResourceStorage]
		if !min && !max {
			errs = append(errs, field.Required(at, "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	for _, n := range sets.List(names) {
		errs = append(errs, validateBounds(item, n, at)...)
	}
	return errs
}

// validateBounds checks one resource of a limit: its bounds in ascending order, and the ratio.
func validateBounds(item *corev1.LimitRangeItem, n corev1.ResourceName, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	chain := []struct {
		label string // of the error
		name  string
		list  corev1.ResourceList
	}{
		{"min", "min", item.Min}, {"default request", "defaultRequest", item.DefaultRequest},
		{"default", "default", item.Default}, {"max", "max", item.Max},
	}
	for i, low := range chain {
		a, ok := low.list[n]
		if !ok {
			continue
		}
		errs = append(errs, podspec.Quantity(n, a, at.Child(low.name).Key(string(n)))...)
		for _, high := range chain[i+1:] {
			if b, ok := high.list[n]; ok && a.Cmp(b) > 0 {
				where := low.name
				errs = append(errs, field.Invalid(at.Child(where).Key(string(n)), a.String(),
					fmt.Sprintf("%s value %s is greater than %s value %s", low.label, a.String(), high.label, b.String())))
			}
		}
	}
	ratio, ok := item.MaxLimitRequestRatio[n]
	if !ok {
		return errs
	}
	path := at.Child("maxLimitRequestRatio").Key(string(n))
	if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		errs = append(errs, field.Invalid(path, ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	min, hasMin := item.Min[n]
	max, hasMax := item.Max[n]
	if hasMin && hasMax && min.Sign() > 0 && ratio.AsApproximateFloat64() > max.AsApproximateFloat64()/min.AsApproximateFloat64() {
		errs = append(errs, field.Invalid(path, ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f",
			ratio.String(), max.AsApproximateFloat64()/min.AsApproximateFloat64())))
	}
	return errs
}

var quotaScopes = sets.New(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
	corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass,
	corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass)

// ValidateQuota checks a resource quota.
func ValidateQuota(q *corev1.ResourceQuota) field.ErrorList {
	errs := quotaList(q.Spec.Hard, field.NewPath("spec", "hard"))
	at := field.NewPath("spec", "scopes")
	seen := sets.New[corev1.ResourceQuotaScope]()
	for _, s := range q.Spec.Scopes {
		if !quotaScopes.Has(s) {
			errs = append(errs, field.Invalid(at, q.Spec.Scopes, "unsupported scope"))
		}
		seen.Insert(s)
	}
	for _, pair := range [][]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if seen.HasAll(pair...) {
			errs = append(errs, field.Invalid(at, q.Spec.Scopes, "conflicting scopes"))
		}
	}
	if q.Spec.ScopeSelector != nil {
		errs = append(errs, validateScopeSelector(q.Spec.ScopeSelector, field.NewPath("spec", "scopeSelector"))...)
	}
	return errs
}

func validateScopeSelector(s *corev1.ScopeSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("matchExpressions")
	for i, r := range s.MatchExpressions {
		p := at.Index(i)
		if !quotaScopes.Has(r.ScopeName) {
			errs = append(errs, field.Invalid(at.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
			if r.ScopeName != corev1.ResourceQuotaScopePriorityClass && r.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
				errs = append(errs, field.Invalid(p.Child("operator"), r.Operator,
					fmt.Sprintf("must be 'Exist' when scope is any of %s", "ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) != 0 {
				errs = append(errs, field.Invalid(at.Child("values"), r.Values, "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	return errs
}

func quotaList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for n, q := range list {
		at := path.Key(string(n))
		for _, msg := range utilvalidation.IsQualifiedName(string(n)) {
			errs = append(errs, field.Invalid(at, string(n), msg))
		}
		errs = append(errs, podspec.Quantity(n, q, at)...)
	}
	return errs
}

// ValidateQuotaUpdate checks a change: scopes stay.
func ValidateQuotaUpdate(new, old *corev1.ResourceQuota) field.ErrorList {
	errs := ValidateQuota(new)
	if !apiequality.Semantic.DeepEqual(sets.New(new.Spec.Scopes...), sets.New(old.Spec.Scopes...)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "scopes"), new.Spec.Scopes, "field is immutable"))
	}
	return append(errs, validation.ValidateImmutableField(new.Spec.ScopeSelector, old.Spec.ScopeSelector, field.NewPath("spec", "scopeSelector"))...)
}

// ValidateQuotaStatus checks a change of the status.
func ValidateQuotaStatus(new, _ *corev1.ResourceQuota) field.ErrorList {
	return append(quotaList(new.Status.Hard, field.NewPath("status", "hard")), quotaList(new.Status.Used, field.NewPath("status", "used"))...)
}
