package resource

import (
	"context"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

var resourceClaimParts = api.Parts[*resourcev1.ResourceClaim, resourcev1.ResourceClaimSpec,
	resourcev1.ResourceClaimStatus]{
	Spec:   func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaimSpec { return &c.Spec },
	Status: func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaimStatus { return &c.Status },
}

func resourceClaims(deps api.Deps) *api.Kind {
	access := deviceAccess(deps)
	return api.Define(api.Row[*resourcev1.ResourceClaim]{
		Name: "ResourceClaim", Resource: "resourceclaims",
		Hub:     resourcev1.SchemeGroupVersion,
		Default: DefaultClaim,
		Others: []api.Version{
			api.TwinVersion[*resourcev1beta2.ResourceClaim](resourcev1beta2.SchemeGroupVersion, DefaultClaim),
			api.OtherVersion(resourcev1beta1.SchemeGroupVersion, ClaimFromV1beta1, ClaimToV1beta1,
				DefaultClaimV1beta1),
		},
		Strategy: api.Strategy[*resourcev1.ResourceClaim]{
			Meta:          api.MetaAllInOrder,
			ReturnDeleted: true,
			Authorize: func(ctx context.Context, c *resourcev1.ResourceClaim) field.ErrorList {
				return access.AdminRequests(ctx, c.Namespace, &c.Spec, field.NewPath("spec"))
			},
			PrepareCreate:       resourceClaimParts.PlainCreate,
			PrepareUpdate:       resourceClaimParts.KeepStatus,
			Validate:            api.OfObject(ValidateClaim),
			ValidateUpdate:      api.OfChange(ValidateClaimUpdate),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*resourcev1.ResourceClaim]{
			PrepareUpdate: func(ctx context.Context, new, old *resourcev1.ResourceClaim) {
				resourceClaimParts.StatusUpdateOnly(ctx, new, old)
				DropDeallocated(new, old)
			},
			ValidateUpdate: func(ctx context.Context, new, old *resourcev1.ResourceClaim) field.ErrorList {
				errs := append(access.AdminResults(ctx, new, old), access.Status(ctx, new, old)...)
				return append(errs, ValidateStatusUpdate(new, old)...)
			},
			Reset: []string{"metadata", "spec"},
		},
		Columns: ClaimColumns(),
		Row:     ClaimRow,
	})
}

func deviceAccess(deps api.Deps) Access {
	return Access{NamespaceLabels: deps.NamespaceLabels, Authorize: deps.Authorize}
}

// ValidateClaim checks a claim to be created.
func ValidateClaim(c *resourcev1.ResourceClaim) field.ErrorList {
	return validateSpec(&c.Spec, field.NewPath("spec"), nil)
}

// ValidateClaimUpdate checks a change: what is claimed stays.
func ValidateClaimUpdate(new, old *resourcev1.ResourceClaim) field.ErrorList {
	return immutable(new.Spec, old.Spec, field.NewPath("spec"))
}

// immutable refuses a change of a value that is more than a scalar.
func immutable[T any](new, old T, at *field.Path) field.ErrorList {
	if apiequality.Semantic.DeepEqual(new, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, checks.Unversioned(new), "field is immutable")}
}

// requests are the names by which a claim's requests can be referred to, each with those of its alternatives.
type requests map[string]sets.Set[string]

func requestsOf(s *resourcev1.ResourceClaimSpec) requests {
	out := requests{}
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		alternatives := sets.New[string]()
		for j := range r.FirstAvailable {
			alternatives.Insert(r.FirstAvailable[j].Name)
		}
		out[r.Name] = alternatives
	}
	return out
}

// reference checks the name of a request, or of one of its alternatives.
func (r requests) reference(name string, at *field.Path) field.ErrorList {
	unknown := field.Invalid(at, name,
		"must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
	if strings.Count(name, "/") > 1 {
		return field.ErrorList{unknown}
	}
	var errs field.ErrorList
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, label(part, at)...)
	}
	request, alternative, nested := strings.Cut(name, "/")
	alternatives, ok := r[request]
	if !ok || nested && !alternatives.Has(alternative) {
		errs = append(errs, unknown)
	}
	return errs
}

func (r requests) references(names []string, path *field.Path) field.ErrorList {
	return distinct(names, resourcev1.DeviceRequestsMaxSize, path, same[string], r.reference)
}

// validateSpec checks what is claimed. Expressions in stored were good when they were stored.
func validateSpec(s *resourcev1.ResourceClaimSpec, path *field.Path, stored sets.Set[string]) field.ErrorList {
	devices, known := path.Child("devices"), requestsOf(s)
	errs := distinct(s.Devices.Requests, resourcev1.DeviceRequestsMaxSize, devices.Child("requests"),
		func(r resourcev1.DeviceRequest) string { return r.Name },
		func(r resourcev1.DeviceRequest, at *field.Path) field.ErrorList {
			return validateRequest(&r, at, stored)
		})
	errs = append(errs, each(s.Devices.Constraints, resourcev1.DeviceConstraintsMaxSize, devices.Child("constraints"),
		func(c resourcev1.DeviceConstraint, at *field.Path) field.ErrorList {
			return validateConstraint(&c, at, known)
		})...)
	return append(errs, each(s.Devices.Config, resourcev1.DeviceConfigMaxSize, devices.Child("config"),
		func(c resourcev1.DeviceClaimConfiguration, at *field.Path) field.ErrorList {
			return append(known.references(c.Requests, at.Child("requests")),
				configuration(&c.DeviceConfiguration, at, false)...)
		})...)
}

func validateRequest(r *resourcev1.DeviceRequest, at *field.Path, stored sets.Set[string]) field.ErrorList {
	errs := label(r.Name, at.Child("name"))
	switch first := len(r.FirstAvailable) > 0; {
	case r.Exactly != nil && first:
		return append(errs, field.Invalid(at, nil,
			"exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case r.Exactly == nil && !first:
		return append(errs, field.Required(at, "exactly one of `exactly` or `firstAvailable` is required"))
	case first:
		return append(errs, distinct(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize,
			at.Child("firstAvailable"),
			func(s resourcev1.DeviceSubRequest) string { return s.Name },
			func(s resourcev1.DeviceSubRequest, at *field.Path) field.ErrorList {
				return append(label(s.Name, at.Child("name")), wanted{
					class: s.DeviceClassName, selectors: s.Selectors, mode: s.AllocationMode, count: s.Count,
					tolerations: s.Tolerations,
				}.validate(at, stored)...)
			})...)
	}
	e := r.Exactly
	return append(errs, wanted{
		class: e.DeviceClassName, selectors: e.Selectors, mode: e.AllocationMode, count: e.Count,
		tolerations: e.Tolerations,
	}.validate(at.Child("exactly"), stored)...)
}

// wanted is what a request and its alternatives have in common.
type wanted struct {
	class       string
	selectors   []resourcev1.DeviceSelector
	mode        resourcev1.DeviceAllocationMode
	count       int64
	tolerations []resourcev1.DeviceToleration
}

func (w wanted) validate(at *field.Path, stored sets.Set[string]) field.ErrorList {
	var errs field.ErrorList
	if w.class == "" {
		errs = append(errs, field.Required(at.Child("deviceClassName"), ""))
	} else {
		errs = append(errs, checks.Text(w.class, at.Child("deviceClassName"), checks.Subdomain)...)
	}
	errs = append(errs, selectors(w.selectors, at.Child("selectors"), stored)...)
	switch w.mode {
	case resourcev1.DeviceAllocationModeAll:
		if w.count != 0 {
			errs = append(errs, field.Invalid(at.Child("count"), w.count,
				"must not be specified when allocationMode is 'All'"))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if w.count <= 0 {
			errs = append(errs, field.Invalid(at.Child("count"), w.count, "must be greater than zero"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("allocationMode"), w.mode,
			[]resourcev1.DeviceAllocationMode{resourcev1.DeviceAllocationModeAll,
				resourcev1.DeviceAllocationModeExactCount}))
	}
	for i := range w.tolerations {
		errs = append(errs, validateToleration(&w.tolerations[i], at.Child("tolerations").Index(i))...)
	}
	return errs
}

func validateToleration(t *resourcev1.DeviceToleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, labelKey(t.Key, at.Child("key"))...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, checks.Text(t.Value, at.Child("value"), utilvalidation.IsValidLabelValue)...)
	case "":
		errs = append(errs, field.Required(at.Child("operator"), ""))
	default:
		errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator,
			[]resourcev1.DeviceTolerationOperator{resourcev1.DeviceTolerationOpEqual,
				resourcev1.DeviceTolerationOpExists}))
	}
	if t.Effect != "" {
		errs = append(errs, taintEffect(t.Effect, at.Child("effect"))...)
	}
	return errs
}

func taintEffect(e resourcev1.DeviceTaintEffect, at *field.Path) field.ErrorList {
	return checks.OneOf(e, at, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule,
		resourcev1.DeviceTaintEffectNone)
}

func validateConstraint(c *resourcev1.DeviceConstraint, at *field.Path, known requests) field.ErrorList {
	errs := known.references(c.Requests, at.Child("requests"))
	switch {
	case c.MatchAttribute != nil:
		errs = append(errs, fullyQualifiedName(*c.MatchAttribute, at.Child("matchAttribute"))...)
	case c.DistinctAttribute != nil:
		errs = append(errs, fullyQualifiedName(*c.DistinctAttribute, at.Child("distinctAttribute"))...)
	default:
		errs = append(errs, field.Required(at,
			`exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
	}
	return errs
}

// ValidateTemplate checks a template: the claim in it, and that its metadata is no more than labels and annotations.
func ValidateTemplate(t *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return validateTemplate(t, nil)
}

// ValidateTemplateUpdate checks a changed template, which may keep the expressions that it has.
func ValidateTemplateUpdate(new, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return validateTemplate(new, expressions(&old.Spec.Spec))
}

// ValidateTemplateChange checks a change alone: what the template makes stays.
func ValidateTemplateChange(new, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return immutable(new.Spec, old.Spec, field.NewPath("spec"))
}

func validateTemplate(t *resourcev1.ResourceClaimTemplate, stored sets.Set[string]) field.ErrorList {
	path := field.NewPath("spec")
	errs := podspec.TemplateMeta(&t.Spec.ObjectMeta, path.Child("metadata"))
	return append(errs, validateSpec(&t.Spec.Spec, path.Child("spec"), stored)...)
}

// expressions are those by which a claim chooses devices.
func expressions(s *resourcev1.ResourceClaimSpec) sets.Set[string] {
	out := sets.New[string]()
	add := func(list []resourcev1.DeviceSelector) {
		for _, s := range list {
			if s.CEL != nil {
				out.Insert(s.CEL.Expression)
			}
		}
	}
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			add(r.Exactly.Selectors)
		}
		for j := range r.FirstAvailable {
			add(r.FirstAvailable[j].Selectors)
		}
	}
	return out
}
