// Package handlers serves the verbs of the API on resources: one file per verb, from the decoded request to the cache
// and back to the bytes of the response.
package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	optionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/latency"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/tracing"
)

// Resource joins a row of the table with its cache, which is nil for kinds that are answered, not stored, and holds
// nothing for those that are read from elsewhere.
type Resource struct {
	Kind  *kinds.Kind
	Cache *cache.Cache
}

// Post serves a subresource that takes an object and does something with it (binding, eviction, token). A nil object is answered by a
// Status of success.
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

// Connect serves a subresource that takes over the connection (log, exec, proxy); path is what is wanted of the one behind a proxy. An
// error is answered by a Status, and must not be returned once something was written.
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
	Resources []Resource
	Scheme    *runtime.Scheme
	Codec     *serial.Codec
	// Types are those of the scheme; APIs may share them. Nil makes them.
	Types *Types
	// Admission is asked on every write; nil admits all.
	Admission admission.Interface
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
	// NoCollector leaves finalizers alone that make a deletion wait for the garbage collector.
	NoCollector bool
	// DeleteWorkers is how many objects of a collection are deleted at a time; 0 means one.
	DeleteWorkers int
	// CBOR reads and writes it, too.
	CBOR bool
	// NoWatchList refuses watches that ask to begin with what exists.
	NoWatchList bool
	// NoUpgradeCheck lets those who may get pods/exec and its like open WebSockets there.
	NoUpgradeCheck bool
	// NoCompression sends everything as it is.
	NoCompression bool
}

// API serves resource requests. It reads user and RequestInfo from the request's context.
type API struct {
	config    Config
	endpoints map[doorKey]*endpoint
	served    map[schema.GroupVersion]bool
	groups    map[string]bool // of the kinds of the program
	tracker   *tracker
	forms     forms
	options   runtime.NegotiatedSerializer // of the options of requests
	objects   *interfaces
	// custom are the endpoints that come and go; see Install.
	custom atomic.Pointer[customEndpoints]
}

// New makes the API of the resources given.
func New(config Config) *API {
	limitCopies()
	config.Admission = admission.WithAudit(config.Admission)
	if config.MinWatch == 0 {
		config.MinWatch = minWatch
	}
	if config.Types == nil {
		config.Types = NewTypes(config.Scheme)
	}
	a := &API{
		config:    config,
		endpoints: map[doorKey]*endpoint{},
		served:    map[schema.GroupVersion]bool{},
		groups:    map[string]bool{"": true},
		tracker:   &tracker{scheme: config.Scheme, types: config.Types, deduced: managedfields.NewDeducedTypeConverter()},
		forms:     newForms(config.CBOR),
		options:   optionscheme.Codecs,
	}
	if config.CBOR {
		a.options = serializer.NewCodecFactory(optionscheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	a.objects = newInterfaces(a)
	for _, r := range config.Resources {
		for i := range r.Kind.Versions {
			if r.Kind.Versions[i].Unserved {
				continue
			}
			a.served[r.Kind.Versions[i].GroupVersion] = true
			a.groups[r.Kind.Versions[i].Group] = true
			a.open(a.endpoints, r, &r.Kind.Versions[i])
		}
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
		if main == nil || main.version.Unserved || !main.scoped(info) {
			answer.Unknown(w, r)
			return
		}
		if main.kind.Custom.Fault != nil {
			answer.Error(w, r, apierrors.NewInternalError(errUnresolved))
			return
		}
		warnOfDeprecation(r.Context(), main.version)
		a.enter(w, r, info, custom.endpoints)
	case !a.groups[gv.Group]:
		answer.Unknown(w, r)
	default:
		a.enter(w, r, info, a.endpoints)
	}
}

// errUnresolved is all that clients are told of a custom resource that can't be served.
var errUnresolved = errors.New("error resolving resource")

func (a *API) enter(w http.ResponseWriter, r *http.Request, info *request.RequestInfo, endpoints map[doorKey]*endpoint) {
	gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	d := endpoints[doorKey{gv, info.Resource, info.Subresource}]
	if d == nil || d.version.Unserved {
		a.missing(w, r, info, endpoints)
		return
	}
	c := &call{endpoint: d, api: a, w: w, r: r, ctx: r.Context(), times: latency.From(r.Context()), info: info, namespace: info.Namespace, name: info.Name}
	if !d.kind.Namespaced {
		c.namespace = ""
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

func keyOf(info *request.RequestInfo) doorKey {
	return doorKey{schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, info.Resource, info.Subresource}
}

// missing answers a request for what no endpoint leads to.
func (a *API) missing(w http.ResponseWriter, r *http.Request, info *request.RequestInfo, endpoints map[doorKey]*endpoint) {
	main := endpoints[doorKey{schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, info.Resource, ""}]
	if main != nil && main.kind.Custom != nil {
		answer.Error(w, r, apierrors.NewNotFound(main.resource, info.Name))
		return
	}
	answer.Error(w, r, generic(http.StatusNotFound))
}

// serve finds what serves the request.
func (c *call) serve() (err error) {
	if c.verb, err = c.route(c.r, c.info); err != nil {
		return err
	}
	if name, ok := spans[c.verb]; ok && c.connect == nil {
		c.ctx = c.steps.Begin(c.ctx, name, c.traits)
		defer func() { c.steps.End(c.ctx, c.traits) }()
	}
	if err := c.formats(); err != nil {
		answer.Error(c.w, c.r, err) // in a form that any server has, as here nothing is known of this one's
		return nil
	}
	if c.version.DeprecationWarning != "" {
		if c.kind.Custom == nil {
			warnOfDeprecation(c.ctx, c.version)
		}
		c.auditDeprecation()
		if m := c.api.config.Meter; m != nil {
			m.Deprecated(c.version.WithResource(c.kind.Resource), c.info.Subresource, c.version.RemovedRelease)
		}
	}
	if c.connect != nil {
		return c.connected()
	}
	if c.verb == "patch" { // a form that isn't known is told of before one that can't be had
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
		case c.sub != nil && c.sub.Strategy == nil && c.sub.Scale == nil:
			return apierrors.NewServiceUnavailable("the server has nothing that serves " + c.resource.Resource + "/" + c.sub.Name)
		}
		return c.named(verbs[c.verb](c))
	})
}

// warnOfDeprecation is said of custom resources whatever is asked of them, else of what is served.
func warnOfDeprecation(ctx context.Context, v *kinds.Version) {
	if v.DeprecationWarning != "" {
		warning.AddWarning(ctx, "", v.DeprecationWarning)
	}
}

// named tells of an object that isn't there by the resource of the request, where the cache knows it by another (events
// are of two groups).
func (c *call) named(err error) error {
	var status apierrors.APIStatus
	if c.resource.Group == c.kind.Hub.Group || !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return err
	}
	if d := status.Status().Details; d == nil || d.Group != c.kind.Hub.Group || d.Kind != c.kind.Resource {
		return err
	}
	return apierrors.NewNotFound(c.resource, c.name)
}

// call is one request on its way.
type call struct {
	*endpoint
	api             *API
	w               http.ResponseWriter
	r               *http.Request
	ctx             context.Context
	info            *request.RequestInfo
	verb            string
	choice          negotiate.Choice // the form of the response; not for connections
	media           string           // that of a patch
	namespace, name string
	times           *latency.Times // nil if nobody wants to know
	steps           tracing.Steps
	answering       time.Time         // since when, for them
	strange         bool              // there may be something in the object that its schema doesn't know: admission changed it, say
	alien           *schema.GroupKind // what a custom resource was written as, if not as one of the request's kind and version; see misnamed
}

func (c *call) key() string { return c.cache.Key(c.namespace, c.name) }

// hasKey checks that an object of that name can be in the store.
func (c *call) hasKey() error {
	if msgs := path.IsValidPathSegmentName(c.name); len(msgs) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", c.name, strings.Join(msgs, ";")))
	}
	return nil
}

// isNamed checks that the request is for one object: paths of custom resources are taken as they come.
func (c *call) isNamed() error {
	if c.name == "" {
		return apierrors.NewBadRequest("name must be provided")
	}
	return nil
}

func (c *call) now() metav1.Time { return metav1.NewTime(c.api.config.Clock.Now()).Rfc3339Copy() }

// warn tells the client something with a request that goes on.
func (c *call) warn(texts []string) {
	for _, text := range texts {
		warning.AddWarning(c.ctx, "", text)
	}
}
