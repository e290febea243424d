package reviews

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func tokenReviews(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*authenticationv1.TokenReview]{
		Name: "TokenReview", Resource: "tokenreviews", Cluster: true,
		Hub:        authenticationv1.SchemeGroupVersion,
		CreateFunc: review("tokenreviews", CheckToken, deps.TokenReview),
	})
}

func selfSubjectReviews(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*authenticationv1.SelfSubjectReview]{
		Name: "SelfSubjectReview", Resource: "selfsubjectreviews", Cluster: true,
		Hub:        authenticationv1.SchemeGroupVersion,
		CreateFunc: review("selfsubjectreviews", nil, deps.SelfSubjectReview),
	})
}

func subjectAccessReviews(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*authorizationv1.SubjectAccessReview]{
		Name: "SubjectAccessReview", Resource: "subjectaccessreviews", Cluster: true,
		Hub: authorizationv1.SchemeGroupVersion,
		CreateFunc: review("subjectaccessreviews", valid(authorizationv1.GroupName, ValidateSubject),
			deps.SubjectAccessReview),
	})
}

func localSubjectAccessReviews(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*authorizationv1.LocalSubjectAccessReview]{
		Name: "LocalSubjectAccessReview", Resource: "localsubjectaccessreviews",
		Hub: authorizationv1.SchemeGroupVersion,
		CreateFunc: review("localsubjectaccessreviews", valid(authorizationv1.GroupName, ValidateLocal),
			deps.LocalSubjectAccessReview),
	})
}

func selfSubjectAccessReviews(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*authorizationv1.SelfSubjectAccessReview]{
		Name: "SelfSubjectAccessReview", Resource: "selfsubjectaccessreviews", Cluster: true,
		Hub: authorizationv1.SchemeGroupVersion,
		CreateFunc: review("selfsubjectaccessreviews", valid(authorizationv1.GroupName, ValidateSelf),
			deps.SelfSubjectAccessReview),
	})
}

func selfSubjectRulesReviews(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*authorizationv1.SelfSubjectRulesReview]{
		Name: "SelfSubjectRulesReview", Resource: "selfsubjectrulesreviews", Cluster: true,
		Hub:        authorizationv1.SchemeGroupVersion,
		CreateFunc: review("selfsubjectrulesreviews", CheckRules, deps.SelfSubjectRulesReview),
	})
}

// review is f for what passes the check and is admitted; check may be nil. It changes nothing anyway.
func review[P api.Object](resource string, check func(P) error,
	f func(context.Context, P) (P, error)) api.CreateFunc[P] {
	if f == nil {
		return api.OrUnavailable[P](resource, nil)
	}
	return func(ctx context.Context, obj P, asked api.CreateRequest) (P, error) {
		var none P
		if check != nil {
			if err := check(obj); err != nil {
				return none, err
			}
		}
		if err := asked.Admit(); err != nil {
			return none, err
		}
		return f(ctx, obj)
	}
}

// valid is the check by a validation. Errors about reviews name neither kind nor object, as upstream's don't.
func valid[P api.Object](group string, validate func(P) field.ErrorList) func(P) error {
	return func(obj P) error {
		if errs := validate(obj); len(errs) > 0 {
			return apierrors.NewInvalid(schema.GroupKind{Group: group}, "", errs)
		}
		return nil
	}
}

const exactlyOne = "exactly one of nonResourceAttributes or resourceAttributes must be specified"

// ValidateSubject checks a SubjectAccessReview.
func ValidateSubject(r *authorizationv1.SubjectAccessReview) field.ErrorList {
	return append(spec(&r.Spec, field.NewPath("spec")), noMeta(&r.ObjectMeta, metav1.ObjectMeta{}, "must be empty")...)
}

// ValidateLocal checks a LocalSubjectAccessReview.
func ValidateLocal(r *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	path := field.NewPath("spec")
	errs := append(spec(&r.Spec, path),
		noMeta(&r.ObjectMeta, metav1.ObjectMeta{Namespace: r.Namespace}, "must be empty except for namespace")...)
	if r.Spec.ResourceAttributes != nil && r.Spec.ResourceAttributes.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes", "namespace"),
			r.Spec.ResourceAttributes.Namespace, "must match metadata.namespace"))
	}
	if r.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), shown(r.Spec.NonResourceAttributes),
			"disallowed on this kind of request"))
	}
	return errs
}

// ValidateSelf checks a question about oneself.
func ValidateSelf(r *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	path := field.NewPath("spec")
	errs := append(oneSubject(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes, path),
		selectors(r.Spec.ResourceAttributes, path.Child("resourceAttributes"))...)
	return append(errs, noMeta(&r.ObjectMeta, metav1.ObjectMeta{}, "must be empty")...)
}

// CheckToken asks for a token: there is nothing to be told of none.
func CheckToken(r *authenticationv1.TokenReview) error {
	if r.Spec.Token == "" {
		return apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	return nil
}

// CheckRules asks for the namespace of which the rules are to be told.
func CheckRules(r *authorizationv1.SelfSubjectRulesReview) error {
	if r.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	return nil
}

// shown is what messages show of a path: upstream prints its type without a version.
func shown(n *authorizationv1.NonResourceAttributes) any {
	return struct{ Path, Verb string }{n.Path, n.Verb}
}

func spec(s *authorizationv1.SubjectAccessReviewSpec, path *field.Path) field.ErrorList {
	errs := oneSubject(s.ResourceAttributes, s.NonResourceAttributes, path)
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(path.Child("user"), s.User,
			"at least one of user or group must be specified"))
	}
	return append(errs, selectors(s.ResourceAttributes, path.Child("resourceAttributes"))...)
}

// oneSubject: a question is about a resource or about a path.
func oneSubject(r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r != nil && n != nil {
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), shown(n),
			"cannot be specified in combination with resourceAttributes"))
	}
	if r == nil && n == nil {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes"), r, exactlyOne))
	}
	return errs
}

func selectors(r *authorizationv1.ResourceAttributes, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if s := r.FieldSelector; s != nil {
		at := path.Child("fieldSelector")
		errs = append(errs, oneForm(s.RawSelector, len(s.Requirements), at)...)
		for i, q := range s.Requirements {
			errs = append(errs, metavalidation.ValidateFieldSelectorRequirement(q,
				metavalidation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true},
				at.Child("requirements").Index(i))...)
		}
	}
	if s := r.LabelSelector; s != nil {
		at := path.Child("labelSelector")
		errs = append(errs, oneForm(s.RawSelector, len(s.Requirements), at)...)
		for i, q := range s.Requirements {
			errs = append(errs, metavalidation.ValidateLabelSelectorRequirement(q,
				metavalidation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true},
				at.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// oneForm: a selector is given as text or as requirements. Operators of a later version are no fault; they are left
// out.
func oneForm(raw string, requirements int, at *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw,
			"may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"),
			fmt.Sprintf("when %s is specified, requirements or rawSelector is required", at))}
	}
	return nil
}

func noMeta(got *metav1.ObjectMeta, want metav1.ObjectMeta, message string) field.ErrorList {
	bare := got.DeepCopy()
	bare.ManagedFields = nil
	if apiequality.Semantic.DeepEqual(*bare, want) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), *got, message)}
}
