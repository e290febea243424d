// Package reviews checks the questions that clients ask about access. It is pure; the answers come from elsewhere.
package reviews

import (
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const exactlyOne = "exactly one of nonResourceAttributes or resourceAttributes must be specified"

// ValidateSubject checks a question about somebody.
func ValidateSubject(r *authorizationv1.SubjectAccessReview) field.ErrorList {
	return append(spec(&r.Spec, field.NewPath("spec")), noMeta(&r.ObjectMeta, metav1.ObjectMeta{}, "must be empty")...)
}

// ValidateLocal checks a question about somebody in one namespace.
func ValidateLocal(r *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	path := field.NewPath("spec")
	errs := append(spec(&r.Spec, path), noMeta(&r.ObjectMeta, metav1.ObjectMeta{Namespace: r.Namespace}, "must be empty except for namespace")...)
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
		errs = append(errs, field.Invalid(path.Child("user"), s.User, "at least one of user or group must be specified"))
	}
	return append(errs, selectors(s.ResourceAttributes, path.Child("resourceAttributes"))...)
}

// oneSubject: a question is about a resource or about a path.
func oneSubject(r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r != nil && n != nil {
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), shown(n), "cannot be specified in combination with resourceAttributes"))
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
				metavalidation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, at.Child("requirements").Index(i))...)
		}
	}
	if s := r.LabelSelector; s != nil {
		at := path.Child("labelSelector")
		errs = append(errs, oneForm(s.RawSelector, len(s.Requirements), at)...)
		for i, q := range s.Requirements {
			errs = append(errs, metavalidation.ValidateLabelSelectorRequirement(q,
				metavalidation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, at.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// oneForm: a selector is given as text or as requirements. Operators of a later version are no fault; they are left out.
func oneForm(raw string, requirements int, at *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", at))}
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
