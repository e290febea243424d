package answer

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// noHTML keeps what a user chose from being read as HTML.
var noHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Forbidden is the error of a request that its user may not make.
func Forbidden(a authorizer.Attributes, reason string) error {
	message := noHTML.Replace(forbiddenMessage(a))
	if reason != "" {
		message += ": " + reason
	}
	resource := schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}
	return apierrors.NewForbidden(resource, a.GetName(), fmt.Errorf("%s", message))
}

func forbiddenMessage(a authorizer.Attributes) string {
	who := ""
	if u := a.GetUser(); u != nil {
		who = u.GetName()
	}
	if !a.IsResourceRequest() {
		return fmt.Sprintf("User %q cannot %s path %q", who, a.GetVerb(), a.GetPath())
	}
	what := a.GetResource()
	if sub := a.GetSubresource(); sub != "" {
		what += "/" + sub
	}
	where := "at the cluster scope"
	if ns := a.GetNamespace(); ns != "" {
		where = fmt.Sprintf("in the namespace %q", ns)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", who, a.GetVerb(), what, a.GetAPIGroup(),
		where)
}
