package admissionregistration

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// ValidatePolicyStatus checks the status of a validating policy.
func ValidatePolicyStatus(s *v1.ValidatingAdmissionPolicyStatus) field.ErrorList {
	at := field.NewPath("status")
	var errs field.ErrorList
	if s.TypeChecking != nil {
		for i, w := range s.TypeChecking.ExpressionWarnings {
			q := at.Child("typeChecking", "expressionWarnings").Index(i)
			errs = append(errs, checks.Required(w.Warning, q.Child("warning"))...)
			errs = append(errs, validateFieldRef(strings.TrimSpace(w.FieldRef), q.Child("fieldRef"))...)
		}
	}
	return append(errs, metavalidation.ValidateConditions(s.Conditions, at.Child("conditions"))...)
}

func validateFieldRef(ref string, at *field.Path) field.ErrorList {
	if ref == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		return field.ErrorList{field.Invalid(at, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}

// Reserved warns of names that only configurations of a server's own files have.
func Reserved(name string) []string {
	const suffix = ".static.k8s.io"
	if !strings.HasSuffix(name, suffix) {
		return nil
	}
	return []string{fmt.Sprintf(
		"metadata.name: names ending with %q are reserved for static manifest-based configurations and cannot be managed "+
			"via the API", suffix)}
}
