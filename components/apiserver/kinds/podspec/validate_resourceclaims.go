package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// validateClaims checks the resource claims of a pod and returns their names. meta is nil in templates.
func validateClaims(list []corev1.PodResourceClaim, meta *metav1.ObjectMeta, path *field.Path) (sets.Set[string],
	field.ErrorList) {
	names := sets.New[string]()
	for i := range list {
		if list[i].Name != "" {
			names.Insert(list[i].Name)
		}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range list {
		if meta != nil && isMirror(meta) {
			errs = append(errs, field.Forbidden(field.NewPath(""), "static pods do not support resource claims"))
			continue
		}
		errs = append(errs, validateClaim(&list[i], seen, path.Index(i))...)
	}
	return names, errs
}

func validateClaim(c *corev1.PodResourceClaim, seen sets.Set[string], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case c.Name == "":
		errs = append(errs, field.Required(at.Child("name"), ""))
	case seen.Has(c.Name):
		errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
	default:
		errs = append(errs, problems(c.Name, at.Child("name"), checks.Label)...)
		seen.Insert(c.Name)
	}
	switch {
	case c.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil:
		errs = append(errs, field.Invalid(at, checks.Unversioned(c),
			"at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
	case c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil:
		errs = append(errs, field.Invalid(at, checks.Unversioned(c),
			"must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
	}
	if c.ResourceClaimName != nil {
		errs = append(errs, problems(*c.ResourceClaimName, at.Child("resourceClaimName"), checks.Subdomain)...)
	}
	if c.ResourceClaimTemplateName != nil {
		errs = append(errs, problems(*c.ResourceClaimTemplateName, at.Child("resourceClaimTemplateName"),
			checks.Subdomain)...)
	}
	return errs
}

// validateClaimRefs checks what a container takes of the pod's claims: each once, as a whole or by requests.
func validateClaimRefs(list []corev1.ResourceClaim, known sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, c := range list {
		at := path.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		if seen.Has(c.Name) {
			errs = append(errs, field.Duplicate(at, c.Name))
		} else {
			errs = append(errs, takeClaim(c, seen, at)...)
		}
		if !known.Has(c.Name) {
			have := "must be one of the names in pod.spec.resourceClaims"
			if known.Len() == 0 {
				have += " which is empty"
			} else {
				have += ": " + strings.Join(sets.List(known), ", ")
			}
			missing := field.NotFound(at, c.Name)
			missing.Detail = have
			errs = append(errs, missing)
		}
	}
	return errs
}

func takeClaim(c corev1.ResourceClaim, seen sets.Set[string], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	key := c.Name
	if c.Request != "" {
		errs = append(errs, problems(c.Request, at.Child("request"), checks.Label)...)
		key = c.Name + "/" + c.Request
		if seen.Has(key) {
			errs = append(errs, field.Duplicate(at, key))
		}
	} else {
		for k := range seen {
			if strings.HasPrefix(k, c.Name+"/") { // a part of it was taken before
				errs = append(errs, field.Duplicate(at, c.Name))
			}
		}
	}
	seen.Insert(key)
	return errs
}
