package policy

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var budgetParts = api.Parts[*policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetSpec,
	policyv1.PodDisruptionBudgetStatus]{
	Spec:   func(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudgetSpec { return &b.Spec },
	Status: func(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudgetStatus { return &b.Status },
}

func podDisruptionBudgets() *api.Kind {
	return api.Define(api.Row[*policyv1.PodDisruptionBudget]{
		Name: "PodDisruptionBudget", Resource: "poddisruptionbudgets", ShortNames: []string{"pdb"},
		Hub:     policyv1.SchemeGroupVersion,
		Default: Default,
		RemovedVersions: []api.Version{api.RemovedTwin[*policyv1beta1.PodDisruptionBudget](policyv1beta1.SchemeGroupVersion,
			DefaultV1beta1)},
		Strategy: api.Strategy[*policyv1.PodDisruptionBudget]{
			Meta: api.MetaNothing, AnyFinalizer: true,
			PrepareCreate: budgetParts.Create,
			PrepareUpdate: budgetParts.Update,
			Validate: func(_ context.Context, b *policyv1.PodDisruptionBudget) field.ErrorList {
				return Validate(b, nil)
			},
			ValidateUpdate: api.OfChange(Validate),
			ValidateName:   validation.NameIsDNSSubdomain,
			Reset:          []string{"status"},
		},
		Status: &api.Strategy[*policyv1.PodDisruptionBudget]{
			Meta: api.MetaNothing, AnyFinalizer: true,
			PrepareUpdate:  budgetParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateStatus),
			Reset:          []string{"spec"},
		},
		Columns: Columns(),
		Row:     Row,
	})
}

// Validate checks a disruption budget. old is nil for a new one; a selector that is bad already may stay so.
func Validate(b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	var errs field.ErrorList
	path, s := field.NewPath("spec"), &b.Spec
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, checks.Unversioned(b.Spec),
			"minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, validateAmount(s.MinAvailable, path.Child("minAvailable"))...)
	errs = append(errs, validateAmount(s.MaxUnavailable, path.Child("maxUnavailable"))...)
	var options metavalidation.LabelSelectorValidationOptions
	if old != nil {
		options.AllowInvalidLabelValueInSelector = len(
			metavalidation.ValidateLabelSelector(old.Spec.Selector, options, nil)) > 0
	}
	errs = append(errs, metavalidation.ValidateLabelSelector(s.Selector, options, path.Child("selector"))...)
	if p := s.UnhealthyPodEvictionPolicy; p != nil && *p != policyv1.AlwaysAllow && *p != policyv1.IfHealthyBudget {
		errs = append(errs, field.NotSupported(path.Child("unhealthyPodEvictionPolicy"), *p,
			[]policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}))
	}
	return errs
}

func validateAmount(v *intstr.IntOrString, at *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	return append(checks.IntOrPercent(*v, at), checks.AtMostAll(*v, at)...)
}

// ValidateStatus checks a change of the status.
func ValidateStatus(new, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	errs := metavalidation.ValidateConditions(s.Conditions, path.Child("conditions"))
	return append(errs, checks.Counts(path,
		checks.Count{Name: "disruptionsAllowed", Value: s.DisruptionsAllowed},
		checks.Count{Name: "currentHealthy", Value: s.CurrentHealthy},
		checks.Count{Name: "desiredHealthy", Value: s.DesiredHealthy},
		checks.Count{Name: "expectedPods", Value: s.ExpectedPods})...)
}

// Columns are the columns of disruption budgets.
func Columns() show.Columns {
	return show.Name().
		String("Min Available", "The minimum number of pods that must be available.").
		String("Max Unavailable", "The maximum number of pods that may be unavailable.").
		Of("integer", "Allowed Disruptions", "Calculated number of pods that may be disrupted at this time.").
		Age()
}

// Row are the cells of a disruption budget.
func Row(b *policyv1.PodDisruptionBudget) []any {
	text := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []any{b.Name, text(b.Spec.MinAvailable), text(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed),
		show.Age(b.CreationTimestamp)}
}
