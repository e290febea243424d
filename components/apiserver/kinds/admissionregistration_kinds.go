package kinds

import (
	"context"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/admissionregistration"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// configured is the strategy of kinds that configure admission: what of them counts is told by of, and whether it is the
// same by equal. validate gets a nil old object for a new one.
func configured[P Object](of func(P) any, equal func(a, b any) bool, validate func(new, old P) field.ErrorList) strategy[P] {
	return strategy[P]{
		Meta: MetaObjects, AnyFinalizer: true,
		PrepareCreate: func(_ context.Context, obj P) { obj.SetGeneration(1) },
		PrepareUpdate: func(_ context.Context, new, old P) {
			if !equal(of(new), of(old)) {
				new.SetGeneration(old.GetGeneration() + 1)
			}
		},
		Validate: func(obj P) field.ErrorList {
			var none P
			return validate(obj, none)
		},
		ValidateUpdate: validate,
		ValidateName:   validation.NameIsDNSSubdomain,
		Warnings:       func(new, _ P) []string { return admissionregistration.Reserved(new.GetName()) },
	}
}

// asStored compares a list to a stored one, of which an empty one is none; in what a client sends that makes a difference.
func asStored(new, old any) bool {
	if reflect.ValueOf(old).Len() == 0 {
		return reflect.ValueOf(new).IsNil()
	}
	return reflect.DeepEqual(new, old)
}

// readable refuses parameters that the user may not read, once all else is right with an object.
func readable[P Object](k *Kind, check func(ctx context.Context, new, old P) field.ErrorList) *Kind {
	create, update := k.Strategy.Validate, k.Strategy.ValidateUpdate
	k.Strategy.Validate = func(ctx context.Context, obj Object) field.ErrorList {
		if errs := create(ctx, obj); len(errs) > 0 {
			return errs
		}
		var none P
		return check(ctx, obj.(P), none)
	}
	k.Strategy.ValidateUpdate = func(ctx context.Context, new, old Object) field.ErrorList {
		if errs := update(ctx, new, old); len(errs) > 0 {
			return errs
		}
		return check(ctx, new.(P), old.(P))
	}
	return k
}

// paramAccess asks for the policies of which resource it is.
func (d Deps) paramAccess(policies string) admissionregistration.Access {
	return admissionregistration.Access{
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

func validatingWebhooks() *Kind {
	return define(row[*admissionv1.ValidatingWebhookConfiguration]{
		Name: "ValidatingWebhookConfiguration", Resource: "validatingwebhookconfigurations", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultValidating,
		Former: []Version{
			formerTwin[*admissionv1beta1.ValidatingWebhookConfiguration](admissionv1beta1.SchemeGroupVersion, admissionregistration.DefaultValidatingV1beta1),
		},
		Strategy: configured(func(c *admissionv1.ValidatingWebhookConfiguration) any { return c.Webhooks }, asStored,
			admissionregistration.ValidateValidating),
		Columns: admissionregistration.WebhookColumns(),
		Row: func(c *admissionv1.ValidatingWebhookConfiguration) []any {
			return []any{c.Name, int64(len(c.Webhooks)), show.Age(c.CreationTimestamp)}
		},
	})
}

func mutatingWebhooks() *Kind {
	return define(row[*admissionv1.MutatingWebhookConfiguration]{
		Name: "MutatingWebhookConfiguration", Resource: "mutatingwebhookconfigurations", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultMutating,
		Former: []Version{
			formerTwin[*admissionv1beta1.MutatingWebhookConfiguration](admissionv1beta1.SchemeGroupVersion, admissionregistration.DefaultMutatingV1beta1),
		},
		Strategy: configured(func(c *admissionv1.MutatingWebhookConfiguration) any { return c.Webhooks }, asStored,
			admissionregistration.ValidateMutating),
		Columns: admissionregistration.WebhookColumns(),
		Row: func(c *admissionv1.MutatingWebhookConfiguration) []any {
			return []any{c.Name, int64(len(c.Webhooks)), show.Age(c.CreationTimestamp)}
		},
	})
}

var validatingPolicyParts = parts[*admissionv1.ValidatingAdmissionPolicy, admissionv1.ValidatingAdmissionPolicySpec, admissionv1.ValidatingAdmissionPolicyStatus]{
	spec: func(p *admissionv1.ValidatingAdmissionPolicy) *admissionv1.ValidatingAdmissionPolicySpec {
		return &p.Spec
	},
	status: func(p *admissionv1.ValidatingAdmissionPolicy) *admissionv1.ValidatingAdmissionPolicyStatus {
		return &p.Status
	},
}

func validatingPolicies(deps Deps) *Kind {
	s := configured(func(p *admissionv1.ValidatingAdmissionPolicy) any { return p.Spec }, apiequality.Semantic.DeepEqual, admissionregistration.ValidateValidatingPolicy)
	s.PrepareCreate, s.PrepareUpdate = validatingPolicyParts.create, validatingPolicyParts.update
	s.Reset = []string{"status"}
	k := define(row[*admissionv1.ValidatingAdmissionPolicy]{
		Name: "ValidatingAdmissionPolicy", Resource: "validatingadmissionpolicies", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultValidatingPolicy,
		Former: []Version{
			formerTwin[*admissionv1beta1.ValidatingAdmissionPolicy](admissionv1beta1.SchemeGroupVersion, admissionregistration.DefaultValidatingPolicy),
			formerTwin[*admissionv1alpha1.ValidatingAdmissionPolicy](admissionv1alpha1.SchemeGroupVersion, admissionregistration.DefaultValidatingPolicy),
		},
		Strategy: s,
		Status: &strategy[*admissionv1.ValidatingAdmissionPolicy]{
			Meta: MetaNothing, AnyFinalizer: true,
			PrepareUpdate: validatingPolicyParts.statusUpdateOnly,
			ValidateUpdate: func(new, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
				return admissionregistration.ValidatePolicyStatus(&new.Status)
			},
			Warnings: s.Warnings,
			Reset:    []string{"spec", "metadata"}, CreateOnApply: true,
		},
		Columns: admissionregistration.PolicyColumns("Validations", "Validations indicates the number of validation rules"),
		Row: func(p *admissionv1.ValidatingAdmissionPolicy) []any {
			return admissionregistration.PolicyRow(p.Name, len(p.Spec.Validations), p.Spec.ParamKind, show.Age(p.CreationTimestamp))
		},
	})
	access := deps.paramAccess(k.Resource)
	return readable(k, func(ctx context.Context, new, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
		var was *admissionv1.ParamKind
		if old != nil {
			was = old.Spec.ParamKind
		}
		return access.Policy(ctx, new.Spec.ParamKind, was)
	})
}

func validatingPolicyBindings(deps Deps) *Kind {
	k := define(row[*admissionv1.ValidatingAdmissionPolicyBinding]{
		Name: "ValidatingAdmissionPolicyBinding", Resource: "validatingadmissionpolicybindings", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultValidatingBinding,
		Former: []Version{
			formerTwin[*admissionv1beta1.ValidatingAdmissionPolicyBinding](admissionv1beta1.SchemeGroupVersion, admissionregistration.DefaultValidatingBinding),
			formerTwin[*admissionv1alpha1.ValidatingAdmissionPolicyBinding](admissionv1alpha1.SchemeGroupVersion, admissionregistration.DefaultValidatingBindingV1alpha1),
		},
		Strategy: configured(func(b *admissionv1.ValidatingAdmissionPolicyBinding) any { return b.Spec }, apiequality.Semantic.DeepEqual,
			func(new, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
				return admissionregistration.ValidateValidatingBinding(new)
			}),
		Columns: admissionregistration.BindingColumns(),
		Row: func(b *admissionv1.ValidatingAdmissionPolicyBinding) []any {
			return admissionregistration.BindingRow(b.Name, b.Spec.PolicyName, b.Spec.ParamRef, show.Age(b.CreationTimestamp))
		},
	})
	access := deps.paramAccess("validatingadmissionpolicies")
	return readable(k, func(ctx context.Context, new, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
		return access.Binding(ctx, new.Spec.PolicyName, new.Spec.ParamRef, admissionregistration.ValidatingRefusal)
	})
}

func mutatingPolicies(deps Deps) *Kind {
	k := define(row[*admissionv1.MutatingAdmissionPolicy]{
		Name: "MutatingAdmissionPolicy", Resource: "mutatingadmissionpolicies", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultMutatingPolicy,
		Others: []Version{
			twinned[*admissionv1beta1.MutatingAdmissionPolicy](admissionv1beta1.SchemeGroupVersion, admissionregistration.DefaultMutatingPolicy),
			twinned[*admissionv1alpha1.MutatingAdmissionPolicy](admissionv1alpha1.SchemeGroupVersion, admissionregistration.DefaultMutatingPolicy),
		},
		Stored: admissionv1beta1.SchemeGroupVersion,
		Strategy: configured(func(p *admissionv1.MutatingAdmissionPolicy) any { return p.Spec }, apiequality.Semantic.DeepEqual,
			admissionregistration.ValidateMutatingPolicy),
		Columns: admissionregistration.PolicyColumns("Mutations", "Mutation indicates the number of mutations rules"),
		Row: func(p *admissionv1.MutatingAdmissionPolicy) []any {
			return admissionregistration.PolicyRow(p.Name, len(p.Spec.Mutations), p.Spec.ParamKind, show.Age(p.CreationTimestamp))
		},
	})
	access := deps.paramAccess(k.Resource)
	return readable(k, func(ctx context.Context, new, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
		var was *admissionv1.ParamKind
		if old != nil {
			was = old.Spec.ParamKind
		}
		return access.Policy(ctx, new.Spec.ParamKind, was)
	})
}

func mutatingPolicyBindings(deps Deps) *Kind {
	k := define(row[*admissionv1.MutatingAdmissionPolicyBinding]{
		Name: "MutatingAdmissionPolicyBinding", Resource: "mutatingadmissionpolicybindings", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultMutatingBinding,
		Others: []Version{
			twinned[*admissionv1beta1.MutatingAdmissionPolicyBinding](admissionv1beta1.SchemeGroupVersion, admissionregistration.DefaultMutatingBinding),
			twinned[*admissionv1alpha1.MutatingAdmissionPolicyBinding](admissionv1alpha1.SchemeGroupVersion, admissionregistration.DefaultMutatingBindingV1alpha1),
		},
		Stored: admissionv1beta1.SchemeGroupVersion,
		Strategy: configured(func(b *admissionv1.MutatingAdmissionPolicyBinding) any { return b.Spec }, apiequality.Semantic.DeepEqual,
			func(new, _ *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
				return admissionregistration.ValidateMutatingBinding(new)
			}),
		Columns: admissionregistration.BindingColumns(),
		Row: func(b *admissionv1.MutatingAdmissionPolicyBinding) []any {
			return admissionregistration.BindingRow(b.Name, b.Spec.PolicyName, b.Spec.ParamRef, show.Age(b.CreationTimestamp))
		},
	})
	access := deps.paramAccess("mutatingadmissionpolicies")
	return readable(k, func(ctx context.Context, new, _ *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
		return access.Binding(ctx, new.Spec.PolicyName, new.Spec.ParamRef, admissionregistration.MutatingRefusal)
	})
}
