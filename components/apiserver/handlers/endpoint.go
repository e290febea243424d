package handlers

import (
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
)

type doorKey struct {
	schema.GroupVersion
	resource, subresource string
}

// endpoint is one way to an object: a resource or one of its subresources, in one served version.
type endpoint struct {
	kind     *kinds.Kind
	cache    *cache.Cache
	version  *kinds.Version
	sub      *kinds.Subresource // nil for the object itself
	strategy *kinds.Strategy    // that writes through this endpoint follow
	verbs    []string
	shapes   []string // that its objects may be shown in
	// gvk is the kind of the bodies that come and go here, gvr the parent resource as it was asked for, resource the
	// name under which errors speak of it.
	gvk      schema.GroupVersionKind
	gvr      schema.GroupVersionResource
	resource schema.GroupResource
	post     Post
	connect  Connect
	groups   bool // the kind is served under several groups
	// fields gives out what tracks, in one write, who manages which fields through this endpoint.
	fields func() (*ledger, error)
	// verbatim tells whether something in the version's objects is kept as a client has written it.
	verbatim func() bool
	// outage is of the version, if it is of a custom resource.
	outage *outage
	// books do so for most writes; nil for those that are for fields to track.
	books func() *fieldmanager.Books
}

// open adds the endpoints of a version to endpoints.
func (a *API) open(endpoints map[doorKey]*endpoint, r Resource, v *kinds.Version) {
	main := &endpoint{
		kind: r.Kind, cache: r.Cache, version: v, strategy: &r.Kind.Strategy, verbs: r.Kind.Verbs,
		gvk: v.WithKind(r.Kind.Name), gvr: v.WithResource(r.Kind.Resource),
		resource: schema.GroupResource{Group: v.Group, Resource: r.Kind.Resource}, outage: &outage{},
	}
	if main.verbs == nil {
		main.verbs = kinds.AllVerbs()
	}
	main.shapes = shapes(r.Kind, v)
	main.groups = slices.ContainsFunc(r.Kind.Versions, func(v kinds.Version) bool { return v.Group != r.Kind.Hub.Group })
	main.verbatim = sync.OnceValue(func() bool { return fieldmanager.IsVerbatim(reflect.TypeOf(v.New()).Elem()) })
	main.fields, main.books = a.tracker.managers(main), a.tracker.books(main)
	endpoints[doorKey{v.GroupVersion, r.Kind.Resource, ""}] = main
	subresources := r.Kind.SubresourcesIn(v.GroupVersion)
	for i := range subresources {
		sub := &subresources[i]
		d := *main
		d.sub, d.verbs = sub, sub.Verbs
		if sub.Strategy != nil {
			d.strategy = sub.Strategy
		}
		if !sub.Body.Empty() {
			d.gvk = sub.Body
		}
		full := r.Kind.Resource + "/" + sub.Name
		if sub.Strategy == nil && sub.Scale == nil || sub.NoTable {
			d.shapes = []string{negotiate.Metadata, negotiate.MetadataList}
		}
		d.post, d.connect = a.config.Posts[full], a.config.Connects[full]
		d.fields, d.books = a.tracker.managers(&d), a.tracker.books(&d)
		endpoints[doorKey{v.GroupVersion, r.Kind.Resource, sub.Name}] = &d
	}
}

// shapes are those in which objects of a kind may be shown: there is no Table of what has no columns.
func shapes(kind *kinds.Kind, v *kinds.Version) []string {
	out := []string{negotiate.Metadata, negotiate.MetadataList}
	if kind.Row != nil || v.Row != nil {
		out = append(out, negotiate.Table)
	}
	return out
}

// format is how entries are encoded for this endpoint.
func (d *endpoint) format(media serial.MediaType, shape cache.Shape) *cache.Format {
	return d.cache.Format(d.version.GroupVersion, media, shape)
}

// check tells what of an object of this version can't be understood.
func (d *endpoint) check(obj kinds.Object) error {
	if d.version.Check == nil {
		return nil
	}
	return d.version.Check(obj)
}

// toWork is an entry whose object is in the form in which writes are worked on.
func (d *endpoint) toWork(e *cache.Entry) (*cache.Entry, error) {
	if d.kind.Custom == nil {
		return e, nil
	}
	obj, err := e.In(d.kind, d.version)
	if err != nil {
		return nil, err
	}
	if obj == e.Object {
		return e, nil
	}
	return &cache.Entry{Key: e.Key, Revision: e.Revision, Object: obj}, nil
}

// toHub makes a hub object of one of this version.
func (d *endpoint) toHub(obj kinds.Object) (kinds.Object, error) {
	if d.version.ToHub == nil {
		return obj, nil
	}
	return d.version.ToHub(obj)
}

// fromHub makes an object of this version; it may be hub itself.
func (d *endpoint) fromHub(hub kinds.Object) (kinds.Object, error) {
	if d.version.FromHub == nil {
		return hub, nil
	}
	return d.version.FromHub(hub)
}

// copyOf is a hub object that may be changed.
func copyOf(obj kinds.Object) kinds.Object { return obj.DeepCopyObject().(kinds.Object) }
