package resource

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func resourceClaimTemplates(deps api.Deps) *api.Kind {
	access := deviceAccess(deps)
	return api.Define(api.Row[*resourcev1.ResourceClaimTemplate]{
		Name: "ResourceClaimTemplate", Resource: "resourceclaimtemplates",
		Hub:     resourcev1.SchemeGroupVersion,
		Default: DefaultTemplate,
		Others: []api.Version{
			api.TwinVersion[*resourcev1beta2.ResourceClaimTemplate](resourcev1beta2.SchemeGroupVersion,
				DefaultTemplate),
			api.OtherVersion(resourcev1beta1.SchemeGroupVersion, TemplateFromV1beta1, TemplateToV1beta1,
				DefaultTemplateV1beta1),
		},
		Strategy: api.Strategy[*resourcev1.ResourceClaimTemplate]{
			ReturnDeleted: true,
			Authorize: func(ctx context.Context, t *resourcev1.ResourceClaimTemplate) field.ErrorList {
				return access.AdminRequests(ctx, t.Namespace, &t.Spec.Spec, field.NewPath("spec"))
			},
			Validate:            api.OfObject(ValidateTemplate),
			ValidateAmong:       api.WholeFirst(ValidateTemplateUpdate, ValidateTemplateChange),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: PlainColumns(),
		Row:     TemplateRow,
	})
}
