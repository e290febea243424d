package admissionregistration

import (
	"context"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// configured is the strategy of kinds that configure admission: what of them counts is told by of, and whether it is
// the same by equal. validate gets a nil old object for a new one.
func configured[P api.Object](of func(P) any, equal func(a, b any) bool,
	validate func(new, old P) field.ErrorList) api.Strategy[P] {
	return api.Strategy[P]{
		Meta: api.MetaObjects, AnyFinalizer: true,
		PrepareCreate: func(_ context.Context, obj P) { obj.SetGeneration(1) },
		PrepareUpdate: func(_ context.Context, new, old P) {
			if !equal(of(new), of(old)) {
				new.SetGeneration(old.GetGeneration() + 1)
			}
		},
		Validate: func(_ context.Context, obj P) field.ErrorList {
			var none P
			return validate(obj, none)
		},
		ValidateUpdate: api.OfChange(validate),
		ValidateName:   validation.NameIsDNSSubdomain,
		Warnings:       func(_ context.Context, new, _ P) []string { return Reserved(new.GetName()) },
	}
}

// asStored compares a list to a stored one, of which an empty one is none; in what a client sends that makes a
// difference.
func asStored(new, old any) bool {
	if reflect.ValueOf(old).Len() == 0 {
		return reflect.ValueOf(new).IsNil()
	}
	return reflect.DeepEqual(new, old)
}

func validatingWebhooks() *api.Kind {
	return api.Define(api.Row[*admissionv1.ValidatingWebhookConfiguration]{
		Name: "ValidatingWebhookConfiguration", Resource: "validatingwebhookconfigurations", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    DefaultValidating,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*admissionv1beta1.ValidatingWebhookConfiguration](admissionv1beta1.SchemeGroupVersion,
				DefaultValidatingV1beta1),
		},
		Strategy: configured(func(c *admissionv1.ValidatingWebhookConfiguration) any { return c.Webhooks }, asStored,
			ValidateValidating),
		Columns: WebhookColumns(),
		Row: func(c *admissionv1.ValidatingWebhookConfiguration) []any {
			return []any{c.Name, int64(len(c.Webhooks)), show.Age(c.CreationTimestamp)}
		},
	})
}

func mutatingWebhooks() *api.Kind {
	return api.Define(api.Row[*admissionv1.MutatingWebhookConfiguration]{
		Name: "MutatingWebhookConfiguration", Resource: "mutatingwebhookconfigurations", Cluster: true,
		Categories: []string{"api-extensions"},
		Hub:        admissionv1.SchemeGroupVersion,
		Default:    DefaultMutating,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*admissionv1beta1.MutatingWebhookConfiguration](admissionv1beta1.SchemeGroupVersion,
				DefaultMutatingV1beta1),
		},
		Strategy: configured(func(c *admissionv1.MutatingWebhookConfiguration) any { return c.Webhooks }, asStored,
			ValidateMutating),
		Columns: WebhookColumns(),
		Row: func(c *admissionv1.MutatingWebhookConfiguration) []any {
			return []any{c.Name, int64(len(c.Webhooks)), show.Age(c.CreationTimestamp)}
		},
	})
}
