package admissionregistration

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// readable refuses parameters that the user may not read, once all else is right with an object.
func readable[P api.Object](s api.Strategy[P],
	check func(ctx context.Context, new, old P) field.ErrorList) api.Strategy[P] {
	create, update := s.Validate, s.ValidateUpdate
	s.Validate = func(ctx context.Context, obj P) field.ErrorList {
		if errs := create(ctx, obj); len(errs) > 0 {
			return errs
		}
		var none P
		return check(ctx, obj, none)
	}
	s.ValidateUpdate = func(ctx context.Context, new, old P) field.ErrorList {
		if errs := update(ctx, new, old); len(errs) > 0 {
			return errs
		}
		return check(ctx, new, old)
	}
	return s
}

// paramAccess asks for the policies of which resource it is.
func paramAccess(d api.Deps, policies string) Access {
	return Access{
		Authorize: d.Authorize, Resolve: d.Resolve,
		ParamKind: func(ctx context.Context, name string) (*admissionv1.ParamKind, error) {
			obj, err := d.Stored(ctx, admissionv1.Resource(policies), "", name)
			if err != nil {
				return nil, err
			}
			switch p := obj.(type) {
			case *admissionv1.ValidatingAdmissionPolicy:
				return p.Spec.ParamKind, nil
			case *admissionv1.MutatingAdmissionPolicy:
				return p.Spec.ParamKind, nil
			}
			return nil, nil
		},
	}
}

var validatingPolicyParts = api.Parts[*admissionv1.ValidatingAdmissionPolicy, admissionv1.ValidatingAdmissionPolicySpec,
	admissionv1.ValidatingAdmissionPolicyStatus]{
	Spec: func(p *admissionv1.ValidatingAdmissionPolicy) *admissionv1.ValidatingAdmissionPolicySpec {
		return &p.Spec
	},
	Status: func(p *admissionv1.ValidatingAdmissionPolicy) *admissionv1.ValidatingAdmissionPolicyStatus {
		return &p.Status
	},
}

func validatingPolicies(deps api.Deps) *api.Kind {
	s := configured(func(p *admissionv1.ValidatingAdmissionPolicy) any { return p.Spec },
		apiequality.Semantic.DeepEqual, ValidateValidatingPolicy)
	s.PrepareCreate, s.PrepareUpdate = validatingPolicyParts.Create, validatingPolicyParts.Update
	s.Reset = []string{"status"}
	access := paramAccess(deps, "validatingadmissionpolicies")
	return api.Define(api.Row[*admissionv1.ValidatingAdmissionPolicy]{
		Name: "ValidatingAdmissionPolicy", Resource: "validatingadmissionpolicies", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    DefaultValidatingPolicy,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*admissionv1beta1.ValidatingAdmissionPolicy](admissionv1beta1.SchemeGroupVersion,
				DefaultValidatingPolicy),
			api.RemovedTwin[*admissionv1alpha1.ValidatingAdmissionPolicy](admissionv1alpha1.SchemeGroupVersion,
				DefaultValidatingPolicy),
		},
		Strategy: readable(s, func(ctx context.Context, new, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
			var was *admissionv1.ParamKind
			if old != nil {
				was = old.Spec.ParamKind
			}
			return access.Policy(ctx, new.Spec.ParamKind, was)
		}),
		Status: &api.Strategy[*admissionv1.ValidatingAdmissionPolicy]{
			Meta: api.MetaNothing, AnyFinalizer: true,
			PrepareUpdate: validatingPolicyParts.StatusUpdateOnly,
			ValidateUpdate: func(_ context.Context, new, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
				return ValidatePolicyStatus(&new.Status)
			},
			Warnings: s.Warnings,
			Reset:    []string{"spec", "metadata"}, CreateOnApply: true,
		},
		Columns: PolicyColumns("Validations",
			"Validations indicates the number of validation rules"),
		Row: func(p *admissionv1.ValidatingAdmissionPolicy) []any {
			return PolicyRow(p.Name, len(p.Spec.Validations), p.Spec.ParamKind,
				show.Age(p.CreationTimestamp))
		},
	})
}

func validatingPolicyBindings(deps api.Deps) *api.Kind {
	access := paramAccess(deps, "validatingadmissionpolicies")
	return api.Define(api.Row[*admissionv1.ValidatingAdmissionPolicyBinding]{
		Name: "ValidatingAdmissionPolicyBinding", Resource: "validatingadmissionpolicybindings", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    DefaultValidatingBinding,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*admissionv1beta1.ValidatingAdmissionPolicyBinding](admissionv1beta1.SchemeGroupVersion,
				DefaultValidatingBinding),
			api.RemovedTwin[*admissionv1alpha1.ValidatingAdmissionPolicyBinding](admissionv1alpha1.SchemeGroupVersion,
				DefaultValidatingBindingV1alpha1),
		},
		Strategy: readable(configured(func(b *admissionv1.ValidatingAdmissionPolicyBinding) any { return b.Spec },
			apiequality.Semantic.DeepEqual,
			func(new, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
				return ValidateValidatingBinding(new)
			}),
			func(ctx context.Context, new, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
				return access.Binding(ctx, new.Spec.PolicyName, new.Spec.ParamRef, ValidatingRefusal)
			}),
		Columns: BindingColumns(),
		Row: func(b *admissionv1.ValidatingAdmissionPolicyBinding) []any {
			return BindingRow(b.Name, b.Spec.PolicyName, b.Spec.ParamRef,
				show.Age(b.CreationTimestamp))
		},
	})
}

func mutatingPolicies(deps api.Deps) *api.Kind {
	access := paramAccess(deps, "mutatingadmissionpolicies")
	return api.Define(api.Row[*admissionv1.MutatingAdmissionPolicy]{
		Name: "MutatingAdmissionPolicy", Resource: "mutatingadmissionpolicies", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    DefaultMutatingPolicy,
		Others: []api.Version{
			api.TwinVersion[*admissionv1beta1.MutatingAdmissionPolicy](admissionv1beta1.SchemeGroupVersion,
				DefaultMutatingPolicy),
			api.TwinVersion[*admissionv1alpha1.MutatingAdmissionPolicy](admissionv1alpha1.SchemeGroupVersion,
				DefaultMutatingPolicy),
		},
		Stored: admissionv1beta1.SchemeGroupVersion,
		Strategy: readable(configured(func(p *admissionv1.MutatingAdmissionPolicy) any { return p.Spec },
			apiequality.Semantic.DeepEqual,
			ValidateMutatingPolicy),
			func(ctx context.Context, new, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
				var was *admissionv1.ParamKind
				if old != nil {
					was = old.Spec.ParamKind
				}
				return access.Policy(ctx, new.Spec.ParamKind, was)
			}),
		Columns: PolicyColumns("Mutations", "Mutation indicates the number of mutations rules"),
		Row: func(p *admissionv1.MutatingAdmissionPolicy) []any {
			return PolicyRow(p.Name, len(p.Spec.Mutations), p.Spec.ParamKind,
				show.Age(p.CreationTimestamp))
		},
	})
}

func mutatingPolicyBindings(deps api.Deps) *api.Kind {
	access := paramAccess(deps, "mutatingadmissionpolicies")
	return api.Define(api.Row[*admissionv1.MutatingAdmissionPolicyBinding]{
		Name: "MutatingAdmissionPolicyBinding", Resource: "mutatingadmissionpolicybindings", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    DefaultMutatingBinding,
		Others: []api.Version{
			api.TwinVersion[*admissionv1beta1.MutatingAdmissionPolicyBinding](admissionv1beta1.SchemeGroupVersion,
				DefaultMutatingBinding),
			api.TwinVersion[*admissionv1alpha1.MutatingAdmissionPolicyBinding](admissionv1alpha1.SchemeGroupVersion,
				DefaultMutatingBindingV1alpha1),
		},
		Stored: admissionv1beta1.SchemeGroupVersion,
		Strategy: readable(configured(func(b *admissionv1.MutatingAdmissionPolicyBinding) any { return b.Spec },
			apiequality.Semantic.DeepEqual,
			func(new, _ *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
				return ValidateMutatingBinding(new)
			}),
			func(ctx context.Context, new, _ *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
				return access.Binding(ctx, new.Spec.PolicyName, new.Spec.ParamRef, MutatingRefusal)
			}),
		Columns: BindingColumns(),
		Row: func(b *admissionv1.MutatingAdmissionPolicyBinding) []any {
			return BindingRow(b.Name, b.Spec.PolicyName, b.Spec.ParamRef,
				show.Age(b.CreationTimestamp))
		},
	})
}
