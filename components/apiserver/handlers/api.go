// Package handlers serves the verbs of the API on resources: one file per verb, which decodes the request, negotiates
// the form of the response and answers. What reads and writes is the registry.
package handlers

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	optionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/latency"
	"quintet.dev/quintet/components/apiserver/registry"
)

// Post serves a subresource that takes an object and does something with it (binding, eviction, token). A nil object is
// answered by a Status of success.
type Post func(ctx context.Context, p Posted) (runtime.Object, error)

// Posted is what a Post is asked to do.
type Posted struct {
	Namespace, Name string
	// Body is the hub form of what was posted, and belongs to the Post.
	Body   runtime.Object
	DryRun bool
	// Admit asks validating admission, which is to see the body when the Post has found nothing wrong with it.
	Admit func(body runtime.Object) error
}

// Connect serves a subresource that takes over the connection (log, exec, proxy); path is what is wanted of the one
// behind a proxy. An error is answered by a Status, and must not be returned once something was written.
type Connect func(w http.ResponseWriter, r *http.Request, namespace, name, path string) error

// Meter measures what is served.
type Meter interface {
	// Deprecated notes a request for what is to go, in the release removed ("" if that isn't known).
	Deprecated(resource schema.GroupVersionResource, subresource, removed string)
	// Began notes how long a watch took to send what there was when it began.
	Began(resource schema.GroupVersionResource, scope string, took time.Duration)
	// Sent returns what takes the size of each event that a watch of the resource sends.
	Sent(resource schema.GroupVersionResource) func(bytes int)
}

// Config of an API.
type Config struct {
	// Registry has the resources. Those that are custom are installed by the API.
	Registry *registry.Registry
	Scheme   *runtime.Scheme
	Codec    *codec.Codec
	// Authorizer decides on what only turns out while serving: a PUT that creates needs create, too.
	Authorizer authorizer.Authorizer
	// Posts and Connects serve the special subresources, by "resource/subresource" of the group that stores the parent.
	Posts    map[string]Post
	Connects map[string]Connect
	Clock    clock.PassiveClock
	// Meter is told of what is served; nil measures nothing.
	Meter Meter
	// MinWatch is how long a watch lives at least if the client doesn't say; 0 means half an hour.
	MinWatch time.Duration
	// CBOR reads and writes it, too.
	CBOR bool
	// NoWatchList refuses watches that ask to begin with what exists.
	NoWatchList bool
	// NoUpgradeCheck lets users with the verb get on pods/exec and the like open WebSockets there.
	NoUpgradeCheck bool
	// NoCompression sends everything as it is.
	NoCompression bool
}

// API serves resource requests. It reads user and RequestInfo from the request's context.
type API struct {
	config    Config
	endpoints map[registry.Key]*endpoint
	served    map[schema.GroupVersion]bool
	groups    map[string]bool // of the kinds of the program
	forms     forms
	options   runtime.NegotiatedSerializer // of the options of requests
	// custom are the endpoints that come and go; see Install.
	custom atomic.Pointer[customEndpoints]
}

// New makes the API of a registry's resources.
func New(config Config) *API {
	limitCopies()
	if config.MinWatch == 0 {
		config.MinWatch = minWatch
	}
	a := &API{
		config:    config,
		endpoints: map[registry.Key]*endpoint{},
		served:    map[schema.GroupVersion]bool{},
		groups:    map[string]bool{"": true},
		forms:     newForms(config.CBOR),
		options:   optionscheme.Codecs,
	}
	if config.CBOR {
		a.options = serializer.NewCodecFactory(optionscheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	for key, ep := range config.Registry.Endpoints() {
		a.endpoints[key] = a.serves(ep)
		a.served[key.GroupVersion] = true
		a.groups[key.Group] = true
	}
	return a
}

// verbs is the table of contents: what serves which verb on objects and their views.
var verbs = map[string]func(*call) error{
	"get":              (*call).get,
	"list":             (*call).list,
	"watch":            (*call).watch,
	"create":           (*call).create,
	"update":           (*call).update,
	"patch":            (*call).patch,
	"delete":           (*call).delete,
	"deletecollection": (*call).deleteCollection,
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest {
		answer.Unknown(w, r)
		return
	}
	gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	if a.served[gv] {
		a.enter(w, r, info, a.endpoints)
		return
	}
	custom, main, leave := a.toCustom(gv, info)
	defer leave()
	switch {
	case custom != nil && custom.served[gv]:
		if main == nil || main.Version.Unserved || !main.scoped(info) {
			answer.Unknown(w, r)
			return
		}
		if main.Kind.Custom.Fault != nil {
			answer.Error(w, r, apierrors.NewInternalError(errUnresolved))
			return
		}
		warnOfDeprecation(r.Context(), main.Version)
		a.enter(w, r, info, custom.endpoints)
	case !a.groups[gv.Group]:
		answer.Unknown(w, r)
	default:
		a.enter(w, r, info, a.endpoints)
	}
}

// errUnresolved is all that clients are told of a custom resource that can't be served.
var errUnresolved = errors.New("error resolving resource")

func (a *API) enter(
	w http.ResponseWriter, r *http.Request, info *request.RequestInfo, endpoints map[registry.Key]*endpoint,
) {
	d := endpoints[keyOf(info)]
	if d == nil || d.Version.Unserved {
		a.missing(w, r, info, endpoints)
		return
	}
	user, _ := request.UserFrom(r.Context())
	c := newCall(
		exchange{endpoint: d, api: a, w: w, r: r, ctx: r.Context(), info: info, times: latency.From(r.Context())},
		registry.Request{User: user, Namespace: info.Namespace, Name: info.Name},
	)
	if !d.Kind.Namespaced {
		c.Namespace = ""
	}
	if err := c.serve(); err != nil {
		answer.ErrorIn(w, r, err, negotiate.Offer{Media: a.forms.media, CBOR: a.config.CBOR})
	}
}

// Serves tells whether a request is for a resource that is served here, whatever it asks of it.
func (a *API) Serves(info *request.RequestInfo) bool {
	return a.endpoints[keyOf(info)] != nil || a.Defined(info)
}

// Defined tells whether a request is for a resource that is served here and is a custom one.
func (a *API) Defined(info *request.RequestInfo) bool {
	custom := a.custom.Load()
	return custom != nil && custom.endpoints[keyOf(info)] != nil
}

func keyOf(info *request.RequestInfo) registry.Key {
	return registry.Key{
		GroupVersion: schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion},
		Resource:     info.Resource, Subresource: info.Subresource,
	}
}

// missing answers a request for what no endpoint leads to.
func (a *API) missing(
	w http.ResponseWriter, r *http.Request, info *request.RequestInfo, endpoints map[registry.Key]*endpoint,
) {
	key := keyOf(info)
	key.Subresource = ""
	main := endpoints[key]
	if main != nil && main.Kind.Custom != nil {
		answer.Error(w, r, apierrors.NewNotFound(main.Resource, info.Name))
		return
	}
	answer.Error(w, r, generic(http.StatusNotFound))
}

// serve finds what serves the request.
func (c *call) serve() (err error) {
	if c.Verb, err = c.route(c.r, c.info); err != nil {
		return err
	}
	if name, ok := spans[c.Verb]; ok && c.connect == nil {
		c.ctx = c.steps.Begin(c.ctx, name, c.traits)
		defer func() { c.steps.End(c.ctx, c.traits) }()
	}
	if err := c.formats(); err != nil {
		answer.Error(c.w, c.r, err) // in a form that any server has, as here nothing is known of this one's
		return nil
	}
	if c.Version.DeprecationWarning != "" {
		if c.Kind.Custom == nil {
			warnOfDeprecation(c.ctx, c.Version)
		}
		c.auditDeprecation()
		if m := c.api.config.Meter; m != nil {
			m.Deprecated(c.Version.WithResource(c.Kind.Resource), c.info.Subresource, c.Version.RemovedRelease)
		}
	}
	if c.connect != nil {
		return (&connection{c}).connected()
	}
	if c.Verb == "patch" { // a form that isn't known is told of before one that can't be had
		if c.media, err = c.patchMedia(); err != nil {
			return err
		}
	}
	if err := c.accept(); err != nil {
		return err
	}
	return c.inTime(longestWrite, func() error {
		switch {
		case c.post != nil:
			return c.posted()
		case c.IsAction():
			return apierrors.NewServiceUnavailable(
				"the server has nothing that serves " + c.Resource.Resource + "/" + c.Sub.Name)
		}
		return c.named(verbs[c.Verb](c))
	})
}

// warnOfDeprecation is said of custom resources whatever is asked of them, else of what is served.
func warnOfDeprecation(ctx context.Context, v *api.Version) {
	if v.DeprecationWarning != "" {
		warning.AddWarning(ctx, "", v.DeprecationWarning)
	}
}

// named tells of an object that isn't there by the resource of the request, where the cache knows it by another (events
// are of two groups).
func (c *call) named(err error) error {
	var status apierrors.APIStatus
	if c.Resource.Group == c.Kind.Hub.Group || !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return err
	}
	if d := status.Status().Details; d == nil || d.Group != c.Kind.Hub.Group || d.Kind != c.Kind.Resource {
		return err
	}
	return apierrors.NewNotFound(c.Resource, c.Name)
}

// isNamed checks that the request is for one object: paths of custom resources are taken as they come.
func (c *call) isNamed() error {
	if c.Name == "" {
		return apierrors.NewBadRequest("name must be provided")
	}
	return nil
}

// warn tells the client something with a request that goes on.
func warn(ctx context.Context, texts ...string) {
	for _, text := range texts {
		warning.AddWarning(ctx, "", text)
	}
}
