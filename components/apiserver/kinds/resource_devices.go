package kinds

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/resource"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var deviceClassParts = parts[*resourcev1.DeviceClass, resourcev1.DeviceClassSpec, struct{}]{
	spec: func(c *resourcev1.DeviceClass) *resourcev1.DeviceClassSpec { return &c.Spec },
}

func deviceClasses() *Kind {
	return define(row[*resourcev1.DeviceClass]{
		Name: "DeviceClass", Resource: "deviceclasses", Cluster: true,
		Hub: resourcev1.SchemeGroupVersion,
		Others: []Version{
			twinned[*resourcev1beta2.DeviceClass, *resourcev1.DeviceClass](resourcev1beta2.SchemeGroupVersion, nil),
			twinned[*resourcev1beta1.DeviceClass, *resourcev1.DeviceClass](resourcev1beta1.SchemeGroupVersion, nil),
		},
		Strategy: strategy[*resourcev1.DeviceClass]{
			Meta:                MetaAllInOrder,
			ReturnDeleted:       true,
			PrepareCreate:       deviceClassParts.create,
			PrepareUpdate:       deviceClassParts.update,
			Validate:            resource.ValidateClass,
			ValidateUpdate:      resource.ValidateClassUpdate,
			ValidateName:        resource.ClassName,
			UnconditionalUpdate: true,
		},
		Columns: resource.PlainColumns(),
		Row:     resource.ClassRow,
	})
}

func resourceClaimTemplates(deps Deps) *Kind {
	k := define(row[*resourcev1.ResourceClaimTemplate]{
		Name: "ResourceClaimTemplate", Resource: "resourceclaimtemplates",
		Hub:     resourcev1.SchemeGroupVersion,
		Default: resource.DefaultTemplate,
		Others: []Version{
			twinned[*resourcev1beta2.ResourceClaimTemplate](resourcev1beta2.SchemeGroupVersion, resource.DefaultTemplate),
			other(resourcev1beta1.SchemeGroupVersion, resource.TemplateFromV1beta1, resource.TemplateToV1beta1, resource.DefaultTemplateV1beta1),
		},
		Strategy: strategy[*resourcev1.ResourceClaimTemplate]{
			ReturnDeleted:       true,
			Validate:            resource.ValidateTemplate,
			ValidateAmong:       wholeFirst(resource.ValidateTemplateUpdate, resource.ValidateTemplateChange),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: resource.PlainColumns(),
		Row:     resource.TemplateRow,
	})
	access := deps.deviceAccess()
	k.Strategy.Authorize = func(ctx context.Context, obj Object) field.ErrorList {
		t := obj.(*resourcev1.ResourceClaimTemplate)
		return access.AdminRequests(ctx, t.Namespace, &t.Spec.Spec, field.NewPath("spec"))
	}
	return k
}

var resourceClaimParts = parts[*resourcev1.ResourceClaim, resourcev1.ResourceClaimSpec, resourcev1.ResourceClaimStatus]{
	spec:   func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaimSpec { return &c.Spec },
	status: func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaimStatus { return &c.Status },
}

func resourceClaims(deps Deps) *Kind {
	k := define(row[*resourcev1.ResourceClaim]{
		Name: "ResourceClaim", Resource: "resourceclaims",
		Hub:     resourcev1.SchemeGroupVersion,
		Default: resource.DefaultClaim,
		Others: []Version{
			twinned[*resourcev1beta2.ResourceClaim](resourcev1beta2.SchemeGroupVersion, resource.DefaultClaim),
			other(resourcev1beta1.SchemeGroupVersion, resource.ClaimFromV1beta1, resource.ClaimToV1beta1, resource.DefaultClaimV1beta1),
		},
		Strategy: strategy[*resourcev1.ResourceClaim]{
			Meta:                MetaAllInOrder,
			ReturnDeleted:       true,
			PrepareCreate:       resourceClaimParts.plainCreate,
			PrepareUpdate:       resourceClaimParts.keepStatus,
			Validate:            resource.ValidateClaim,
			ValidateUpdate:      resource.ValidateClaimUpdate,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*resourcev1.ResourceClaim]{
			PrepareUpdate: func(ctx context.Context, new, old *resourcev1.ResourceClaim) {
				resourceClaimParts.statusUpdateOnly(ctx, new, old)
				resource.DropDeallocated(new, old)
			},
			Reset: []string{"metadata", "spec"},
		},
		Columns: resource.ClaimColumns(),
		Row:     resource.ClaimRow,
	})
	access := deps.deviceAccess()
	k.Strategy.Authorize = func(ctx context.Context, obj Object) field.ErrorList {
		c := obj.(*resourcev1.ResourceClaim)
		return access.AdminRequests(ctx, c.Namespace, &c.Spec, field.NewPath("spec"))
	}
	k.Subresource("status").Strategy.ValidateUpdate = func(ctx context.Context, new, old Object) field.ErrorList {
		is, was := new.(*resourcev1.ResourceClaim), old.(*resourcev1.ResourceClaim)
		errs := append(access.AdminResults(ctx, is, was), access.Status(ctx, is, was)...)
		return append(errs, resource.ValidateStatusUpdate(is, was)...)
	}
	return k
}

func (d Deps) deviceAccess() resource.Access {
	return resource.Access{NamespaceLabels: d.NamespaceLabels, Authorize: d.Authorize}
}

func resourceSlices(deps Deps) *Kind {
	return define(row[*resourcev1.ResourceSlice]{
		Name: "ResourceSlice", Resource: "resourceslices", Cluster: true,
		Hub: resourcev1.SchemeGroupVersion,
		Others: []Version{
			twinned[*resourcev1beta2.ResourceSlice, *resourcev1.ResourceSlice](resourcev1beta2.SchemeGroupVersion, nil),
			other(resourcev1beta1.SchemeGroupVersion, resource.SliceFromV1beta1, resource.SliceToV1beta1, nil),
		},
		OnRead: func(s *resourcev1.ResourceSlice) { resource.StampTaints(s, deps.now()) },
		Strategy: strategy[*resourcev1.ResourceSlice]{
			ReturnDeleted: true,
			PrepareCreate: func(_ context.Context, s *resourcev1.ResourceSlice) {
				resource.StampTaints(s, deps.now())
				resource.DropUnserved(s)
				s.Generation = 1
			},
			PrepareUpdate: func(_ context.Context, new, old *resourcev1.ResourceSlice) {
				resource.StampTaints(new, deps.now())
				if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) { // a field that is dropped below counts
					new.Generation = old.Generation + 1
				}
				resource.DropUnserved(new)
			},
			Validate:            resource.ValidateSlice,
			ValidateUpdate:      resource.ValidateSliceUpdate,
			Warnings:            func(new, _ *resourcev1.ResourceSlice) []string { return resource.SliceWarnings(new) },
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: resource.SliceColumns(),
		Row:     resource.SliceRow,
		Fields: map[string]func(*resourcev1.ResourceSlice) string{
			resourcev1.ResourceSliceSelectorNodeName: func(s *resourcev1.ResourceSlice) string { return show.Or(s.Spec.NodeName, "") },
			resourcev1.ResourceSliceSelectorDriver:   func(s *resourcev1.ResourceSlice) string { return s.Spec.Driver },
		},
		Unselectable: "field label not supported for %[2]s, Kind=ResourceSlice: %[1]s",
		Indexed:      []string{resourcev1.ResourceSliceSelectorNodeName},
	})
}
