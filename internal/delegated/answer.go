package delegated

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/internal/zpages"
)

// attributes of a request. Without RequestInfo, nothing is a resource.
func (g *Gate) attributes(who user.Info, r *http.Request) (authorizer.Attributes, error) {
	plain := authorizer.AttributesRecord{User: who, Verb: strings.ToLower(r.Method), Path: r.URL.Path}
	if g.RequestInfo == nil {
		return plain, nil
	}
	info, err := g.RequestInfo.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	if !info.IsResourceRequest {
		return plain, nil
	}
	return authorizer.AttributesRecord{
		User: who, Verb: info.Verb, Path: r.URL.Path, ResourceRequest: true, APIGroup: info.APIGroup,
		APIVersion: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource, Namespace: info.Namespace,
		Name: info.Name,
	}, nil
}

func isAnonymous(u user.Info) bool {
	return u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllUnauthenticated)
}

// closeConnAfterResponse closes an HTTP/2 connection after this request: unauthenticated clients must not flood the
// program with streams (CVE-2023-44487).
func closeConnAfterResponse(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
}

func unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		klog.FromContext(r.Context()).V(2).Info("Unable to authenticate the request", "err", err)
	}
	refuse(w, r, apierrors.NewUnauthorized("Unauthorized"))
}

// harmless takes out of a text what a browser could take for a page.
var harmless = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func forbidden(w http.ResponseWriter, r *http.Request, asked authorizer.Attributes, reason string) {
	why := harmless.Replace(fmt.Sprintf("User %q cannot %s", asked.GetUser().GetName(), object(asked)))
	if reason != "" {
		why += ": " + reason
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	resource := schema.GroupResource{Group: asked.GetAPIGroup(), Resource: asked.GetResource()}
	refuse(w, r, apierrors.NewForbidden(resource, asked.GetName(), errors.New(why)))
}

// object is what was asked for, with its verb.
func object(asked authorizer.Attributes) string {
	if !asked.IsResourceRequest() {
		return fmt.Sprintf("%s path %q", asked.GetVerb(), asked.GetPath())
	}
	resource := asked.GetResource()
	if asked.GetSubresource() != "" {
		resource += "/" + asked.GetSubresource()
	}
	text := fmt.Sprintf("%s resource %q in API group %q", asked.GetVerb(), resource, asked.GetAPIGroup())
	if asked.GetNamespace() == "" {
		return text + " at the cluster scope"
	}
	return text + fmt.Sprintf(" in the namespace %q", asked.GetNamespace())
}

// undecided is when the API server can't be asked.
func undecided(w http.ResponseWriter, r *http.Request, err error) {
	http.Error(w, harmless.Replace(fmt.Sprintf("Internal Server Error: %q: %v", r.RequestURI, err)),
		http.StatusInternalServerError)
}

// refuse answers with a Status, in the form that the client prefers.
func refuse(w http.ResponseWriter, r *http.Request, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	known := scheme.Codecs.SupportedMediaTypes()
	var names []string
	for _, info := range known {
		names = append(names, info.MediaType)
	}
	as := known[0]
	if accept := r.Header.Get("Accept"); accept != "" {
		if at := slices.Index(names, goautoneg.Negotiate(accept, names)); at >= 0 {
			as = known[at]
		}
	}
	encoder := as.Serializer
	if as.PrettySerializer != nil && zpages.Indented(r) {
		encoder = as.PrettySerializer
	}
	body, encodeErr := runtime.Encode(encoder, &status)
	if encodeErr != nil {
		undecided(w, r, encodeErr)
		return
	}
	w.Header().Set("Content-Type", as.MediaType)
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body)
}
