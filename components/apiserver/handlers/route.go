package handlers

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// pathScope is the kind of path of a request.
type pathScope int

const (
	nowhere    pathScope = iota
	everywhere           // all objects of a namespaced kind, in whatever namespace
	collection
	object
	subresourceScope // subresource
)

// asked is the verb of a method in a scope. A watch is requested like a list.
var asked = map[pathScope]map[string]string{
	everywhere: {http.MethodGet: "list"},
	collection: {http.MethodGet: "list", http.MethodPost: "create", http.MethodDelete: "deletecollection"},
	object: {http.MethodGet: "get", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete"},
	subresourceScope: {
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete",
	},
}

// pathScope determines the scope of a path: those of namespaced kinds have a namespace, others have none.
func (ep *endpoint) pathScope(info *request.RequestInfo) pathScope {
	inNamespace := info.Namespace != "" && ep.Kind.Resource != "namespaces"
	switch parts := len(info.Parts); {
	case ep.Kind.Resource == "namespaces" && info.Namespace != "" && (parts == 1 || info.Parts[1] != info.Namespace):
		return nowhere // what is in a namespace is no namespace
	case parts == 1 && ep.Kind.Namespaced && !inNamespace:
		return everywhere
	case inNamespace != ep.Kind.Namespaced:
		return nowhere
	case parts == 1:
		return collection
	case parts == 2:
		return object
	case parts == 3, ep.connect != nil && ep.Sub.Name == "proxy":
		return subresourceScope
	}
	return nowhere
}

// routeCustom finds the verb of a request for a custom resource: of the path nothing counts but what the verb was read
// from.
func (ep *endpoint) routeCustom(info *request.RequestInfo) (string, error) {
	known := api.AllVerbs()
	if ep.Sub != nil {
		known = []string{"get", "update", "patch"}
	}
	if !slices.Contains(known, info.Verb) {
		return "", apierrors.NewMethodNotSupported(ep.GVR.GroupResource(), info.Verb)
	}
	return info.Verb, nil
}

// scoped tells whether a request for a custom resource is for one in a namespace, if that is where they are, or for all
// of them.
func (ep *endpoint) scoped(info *request.RequestInfo) bool {
	inNamespace, everywhere := info.Namespace != "", info.Verb == "list" || info.Verb == "watch"
	return inNamespace == ep.Kind.Namespaced || ep.Kind.Namespaced && everywhere
}

// route finds the verb of a request. What can't be asked for by any method isn't there.
func (ep *endpoint) route(r *http.Request, info *request.RequestInfo) (string, error) {
	if ep.Kind.Custom != nil {
		return ep.routeCustom(info)
	}
	at := ep.pathScope(info)
	verb := asked[at][r.Method]
	switch prefix := special(info); {
	case prefix == "watch" && at != subresourceScope && slices.Contains(ep.verbs, "watch"):
		if r.Method != http.MethodGet {
			return "", generic(http.StatusMethodNotAllowed)
		}
		return "watch", nil
	case prefix != "":
		return "", generic(http.StatusNotFound)
	case verb == "list" && info.Verb == "watch" && slices.Contains(ep.verbs, "list"):
		return "watch", nil // if it can be watched is told later
	case ep.connect != nil && ep.Sub.Name == "proxy" && (r.Method == http.MethodHead || r.Method == http.MethodOptions):
		return "get", nil
	case slices.Contains(ep.verbs, verb):
		return verb, nil
	}
	for _, other := range asked[at] {
		if slices.Contains(ep.verbs, other) {
			return "", generic(http.StatusMethodNotAllowed)
		}
	}
	return "", generic(http.StatusNotFound)
}

// special is what stands between the version and the resource in paths like /api/v1/watch/pods.
func special(info *request.RequestInfo) string {
	if info.Verb != "watch" && info.Verb != "proxy" {
		return ""
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(info.Path, "/"+info.APIPrefix+"/"), info.APIGroup+"/")
	rest = strings.TrimPrefix(rest, info.APIVersion+"/")
	if first, _, _ := strings.Cut(rest, "/"); first == "watch" || first == "proxy" {
		return first
	}
	return ""
}

// formats checks what a request sends and wants against what there is at all at its place: coarser than what the verbs
// do afterwards, and in words of its own, as with upstream.
func (c *call) formats() error {
	if c.Kind.Custom != nil || c.connect != nil && c.Sub.Name != "log" {
		return nil
	}
	if c.Verb == "patch" && !negotiate.Named(c.r.Header.Get("Content-Type"), c.api.forms.patches...) {
		return genericWith(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	accept := c.r.Header.Get("Accept")
	if accept == "" || negotiate.Named(accept, c.api.forms.acceptable...) {
		return nil
	}
	known := c.api.forms.objects
	streams := c.Verb == "list" || c.Verb == "watch"
	switch {
	case streams && c.api.config.CBOR && negotiate.Named(accept, codec.CBOR.StreamType()):
		return nil
	case c.connect != nil && negotiate.Named(accept, "text/plain"):
		return nil
	case c.connect != nil:
		known = slices.Concat([]string{"text/plain"}, known)
	case streams:
		known = slices.Concat(known, negotiate.Streams(c.api.config.CBOR))
	}
	if length := c.r.Header.Get("Content-Length"); c.r.Method != http.MethodGet && c.r.Method != http.MethodDelete &&
		(length == "" || length == "0") {
		return genericWith(http.StatusUnsupportedMediaType,
			"415: Unsupported Media Type\n\nAvailable representations: "+strings.Join(known, ", "))
	}
	return negotiate.NotAvailable(known...)
}

// generic is an error that has nothing to tell but its code.
func generic(code int) error { return genericWith(code, "") }

func genericWith(code int, message string) error {
	err := apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
	if message != "" {
		err.ErrStatus.Message = message
	}
	return err
}

// accept chooses the form of the response.
func (c *call) accept() (err error) {
	c.out.choice, err = c.offer().Accept(c.r)
	return err
}

// offer is what the objects of this endpoint can be shown as.
func (c *call) offer() negotiate.Offer {
	if c.Kind.Custom != nil {
		return negotiate.Offer{Media: c.api.forms.custom, Shapes: c.shapes, CBOR: c.api.config.CBOR}
	}
	return negotiate.Offer{Media: c.api.forms.media, Shapes: c.shapes, CBOR: c.api.config.CBOR}
}
