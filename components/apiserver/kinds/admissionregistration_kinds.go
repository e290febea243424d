package kinds

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/admissionregistration"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// configured is the strategy of kinds that configure admission: what of them counts is told by parts.
func configured[P Object](of func(P) any, validate func(P) field.ErrorList) strategy[P] {
	return strategy[P]{
		Meta: MetaObjects, AnyFinalizer: true,
		PrepareCreate: func(_ context.Context, obj P) { obj.SetGeneration(1) },
		PrepareUpdate: func(_ context.Context, new, old P) {
			if !apiequality.Semantic.DeepEqual(of(new), of(old)) {
				new.SetGeneration(old.GetGeneration() + 1)
			}
		},
		Validate:       validate,
		ValidateUpdate: func(new, _ P) field.ErrorList { return validate(new) },
		ValidateName:   validation.NameIsDNSSubdomain,
	}
}

func validatingWebhooks() *Kind {
	return define(row[*admissionv1.ValidatingWebhookConfiguration]{
		Name: "ValidatingWebhookConfiguration", Resource: "validatingwebhookconfigurations", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultValidating,
		Strategy: configured(func(c *admissionv1.ValidatingWebhookConfiguration) any { return c.Webhooks },
			admissionregistration.ValidateValidating),
		Columns: admissionregistration.WebhookColumns(),
		Row: func(c *admissionv1.ValidatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), show.Age(c.CreationTimestamp, now)}
		},
	})
}

func mutatingWebhooks() *Kind {
	return define(row[*admissionv1.MutatingWebhookConfiguration]{
		Name: "MutatingWebhookConfiguration", Resource: "mutatingwebhookconfigurations", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultMutating,
		Strategy: configured(func(c *admissionv1.MutatingWebhookConfiguration) any { return c.Webhooks },
			admissionregistration.ValidateMutating),
		Columns: admissionregistration.WebhookColumns(),
		Row: func(c *admissionv1.MutatingWebhookConfiguration, now time.Time) []any {
			return []any{c.Name, int64(len(c.Webhooks)), show.Age(c.CreationTimestamp, now)}
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

func validatingPolicies() *Kind {
	s := configured(func(p *admissionv1.ValidatingAdmissionPolicy) any { return p.Spec }, admissionregistration.ValidateValidatingPolicy)
	s.PrepareCreate, s.PrepareUpdate = validatingPolicyParts.create, validatingPolicyParts.update
	s.Reset = []string{"status"}
	return define(row[*admissionv1.ValidatingAdmissionPolicy]{
		Name: "ValidatingAdmissionPolicy", Resource: "validatingadmissionpolicies", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultValidatingPolicy,
		Strategy:   s,
		Status: &strategy[*admissionv1.ValidatingAdmissionPolicy]{
			Meta: MetaNothing, AnyFinalizer: true,
			PrepareUpdate: validatingPolicyParts.statusUpdate,
			Reset:         []string{"spec"},
		},
		Columns: admissionregistration.PolicyColumns("Validations", "Validations indicates the number of validation rules"),
		Row: func(p *admissionv1.ValidatingAdmissionPolicy, now time.Time) []any {
			return admissionregistration.PolicyRow(p.Name, len(p.Spec.Validations), p.Spec.ParamKind, show.Age(p.CreationTimestamp, now))
		},
	})
}

func validatingPolicyBindings() *Kind {
	return define(row[*admissionv1.ValidatingAdmissionPolicyBinding]{
		Name: "ValidatingAdmissionPolicyBinding", Resource: "validatingadmissionpolicybindings", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultValidatingBinding,
		Strategy: configured(func(b *admissionv1.ValidatingAdmissionPolicyBinding) any { return b.Spec },
			admissionregistration.ValidateValidatingBinding),
		Columns: admissionregistration.BindingColumns(),
		Row: func(b *admissionv1.ValidatingAdmissionPolicyBinding, now time.Time) []any {
			return admissionregistration.BindingRow(b.Name, b.Spec.PolicyName, b.Spec.ParamRef, show.Age(b.CreationTimestamp, now))
		},
	})
}

func mutatingPolicies() *Kind {
	return define(row[*admissionv1.MutatingAdmissionPolicy]{
		Name: "MutatingAdmissionPolicy", Resource: "mutatingadmissionpolicies", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultMutatingPolicy,
		Others:     []Version{stored(admissionv1beta1.SchemeGroupVersion, admissionregistration.DefaultMutatingPolicy)},
		Stored:     admissionv1beta1.SchemeGroupVersion,
		Strategy: configured(func(p *admissionv1.MutatingAdmissionPolicy) any { return p.Spec },
			admissionregistration.ValidateMutatingPolicy),
		Columns: admissionregistration.PolicyColumns("Mutations", "Mutation indicates the number of mutations rules"),
		Row: func(p *admissionv1.MutatingAdmissionPolicy, now time.Time) []any {
			return admissionregistration.PolicyRow(p.Name, len(p.Spec.Mutations), p.Spec.ParamKind, show.Age(p.CreationTimestamp, now))
		},
	})
}

func mutatingPolicyBindings() *Kind {
	return define(row[*admissionv1.MutatingAdmissionPolicyBinding]{
		Name: "MutatingAdmissionPolicyBinding", Resource: "mutatingadmissionpolicybindings", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    admissionregistration.DefaultMutatingBinding,
		Others:     []Version{stored(admissionv1beta1.SchemeGroupVersion, admissionregistration.DefaultMutatingBinding)},
		Stored:     admissionv1beta1.SchemeGroupVersion,
		Strategy: configured(func(b *admissionv1.MutatingAdmissionPolicyBinding) any { return b.Spec },
			admissionregistration.ValidateMutatingBinding),
		Columns: admissionregistration.BindingColumns(),
		Row: func(b *admissionv1.MutatingAdmissionPolicyBinding, now time.Time) []any {
			return admissionregistration.BindingRow(b.Name, b.Spec.PolicyName, b.Spec.ParamRef, show.Age(b.CreationTimestamp, now))
		},
	})
}
