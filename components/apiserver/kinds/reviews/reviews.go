// Package reviews checks the questions that clients ask about access. It is pure; the answers come from elsewhere.
package reviews

import (
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

const exactlyOne = "exactly one of nonResourceAttributes or resourceAttributes must be specified"

// ValidateSubject checks a question about somebody.
func ValidateSubject(r *authorizationv1.SubjectAccessReview) field.ErrorList {
	return append(spec(&r.Spec, field.NewPath("spec")), noMeta(&r.ObjectMeta, metav1.ObjectMeta{})...)
}

// ValidateLocal checks a question about somebody in one namespace.
func ValidateLocal(r *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	path := field.NewPath("spec")
	errs := append(spec(&r.Spec, path), noMeta(&r.ObjectMeta, metav1.ObjectMeta{Namespace: r.Namespace})...)
	if r.Spec.ResourceAttributes != nil && r.Spec.ResourceAttributes.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes", "namespace"),
			r.Spec.ResourceAttributes.Namespace, "must match metadata.namespace"))
	}
	if r.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), r.Spec.NonResourceAttributes,
			"disallowed on this kind of request"))
	}
	return errs
}

// ValidateSelf checks a question about oneself.
func ValidateSelf(r *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	return append(attributes(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes, field.NewPath("spec")),
		noMeta(&r.ObjectMeta, metav1.ObjectMeta{})...)
}

func spec(s *authorizationv1.SubjectAccessReviewSpec, path *field.Path) field.ErrorList {
	errs := attributes(s.ResourceAttributes, s.NonResourceAttributes, path)
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(path.Child("user"), s.User, "at least one of user or group must be specified"))
	}
	return errs
}

func attributes(r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r != nil && n != nil {
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), n, "cannot be specified in combination with resourceAttributes"))
	}
	if r == nil && n == nil {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes"), r, exactlyOne))
	}
	if r != nil {
		errs = append(errs, selectors(r, path.Child("resourceAttributes"))...)
	}
	return errs
}

func selectors(r *authorizationv1.ResourceAttributes, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	const both = "may not specified at the same time as requirements"
	const none = "requirements or rawSelector must be specified"
	if s := r.FieldSelector; s != nil {
		at := path.Child("fieldSelector")
		switch {
		case s.RawSelector != "" && len(s.Requirements) > 0:
			errs = append(errs, field.Invalid(at.Child("rawSelector"), s.RawSelector, both))
		case s.RawSelector == "" && len(s.Requirements) == 0:
			errs = append(errs, field.Required(at.Child("requirements"), none))
		}
		for i := range s.Requirements {
			errs = append(errs, fieldRequirement(&s.Requirements[i], at.Child("requirements").Index(i))...)
		}
	}
	if s := r.LabelSelector; s != nil {
		at := path.Child("labelSelector")
		switch {
		case s.RawSelector != "" && len(s.Requirements) > 0:
			errs = append(errs, field.Invalid(at.Child("rawSelector"), s.RawSelector, both))
		case s.RawSelector == "" && len(s.Requirements) == 0:
			errs = append(errs, field.Required(at.Child("requirements"), none))
		}
		for i := range s.Requirements {
			errs = append(errs, metavalidation.ValidateLabelSelectorRequirement(s.Requirements[i],
				metavalidation.LabelSelectorValidationOptions{}, at.Child("requirements").Index(i))...)
		}
	}
	return errs
}

func fieldRequirement(r *metav1.FieldSelectorRequirement, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Key == "" {
		errs = append(errs, field.Required(at.Child("key"), "must be specified"))
	}
	switch r.Operator {
	case metav1.FieldSelectorOpIn, metav1.FieldSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(at.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case metav1.FieldSelectorOpExists, metav1.FieldSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(at.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case "":
		errs = append(errs, field.Required(at.Child("operator"), "must be specified"))
	}
	return errs
}

func noMeta(got *metav1.ObjectMeta, want metav1.ObjectMeta) field.ErrorList {
	bare := got.DeepCopy()
	bare.ManagedFields = nil
	if apiequality.Semantic.DeepEqual(*bare, want) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), *bare, "must be empty except for namespace")}
}

// SelfSubjectColumns are the columns of a review of who one is.
func SelfSubjectColumns() show.Columns {
	return show.Columns(nil).String("Username", authenticationv1.UserInfo{}.SwaggerDoc()["username"])
}

// SelfSubjectRow are the cells of a review of who one is.
func SelfSubjectRow(r *authenticationv1.SelfSubjectReview, _ time.Time) []any {
	return []any{r.Status.UserInfo.Username}
}
