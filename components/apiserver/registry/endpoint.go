package registry

import (
	"context"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Endpoint is one way to an object: a resource or one of its subresources, in one version. It is safe for concurrent
// use; its fields must not be changed.
type Endpoint struct {
	Kind     *api.Kind
	Cache    *cache.Cache
	Version  *api.Version
	Sub      *api.Subresource          // nil for the object itself
	Strategy *api.Strategy[api.Object] // that writes through this endpoint follow
	// GVK is the kind of the bodies that come and go here, GVR the parent resource as it was asked for, Resource the
	// name under which errors speak of it.
	GVK      schema.GroupVersionKind
	GVR      schema.GroupVersionResource
	Resource schema.GroupResource
	// Verbatim tells whether something in the version's objects is kept as a client has written it.
	Verbatim func() bool

	registry *Registry
	fields   *fieldmanager.Manager // of what is written through this endpoint
}

// open adds the endpoints of a version to endpoints.
func (g *Registry) open(endpoints map[Key]*Endpoint, r Resource, v *api.Version) {
	main := &Endpoint{
		registry: g, Kind: r.Kind, Cache: r.Cache, Version: v, Strategy: &r.Kind.Strategy,
		GVK: v.WithKind(r.Kind.Name), GVR: v.WithResource(r.Kind.Resource),
		Resource: schema.GroupResource{Group: v.Group, Resource: r.Kind.Resource},
	}
	main.Verbatim = sync.OnceValue(func() bool { return codec.IsVerbatim(reflect.TypeOf(v.New()).Elem()) })
	main.fields = g.fieldsOf(main)
	endpoints[Key{v.GroupVersion, r.Kind.Resource, ""}] = main
	subresources := r.Kind.SubresourcesIn(v.GroupVersion)
	for i := range subresources {
		sub := &subresources[i]
		ep := *main
		ep.Sub = sub
		if sub.Strategy != nil {
			ep.Strategy = sub.Strategy
		}
		if !sub.Body.Empty() {
			ep.GVK = sub.Body
		}
		ep.fields = g.fieldsOf(&ep)
		endpoints[Key{v.GroupVersion, r.Kind.Resource, sub.Name}] = &ep
	}
}

// fieldsOf makes the field manager of an endpoint.
func (g *Registry) fieldsOf(ep *Endpoint) *fieldmanager.Manager {
	return fieldmanager.New(g.config.Types, fieldmanager.Target{
		Kind: ep.Kind, Version: ep.Version, Subresource: ep.Sub, Body: ep.GVK, Reset: ep.Strategy.ResetFields,
	})
}

// Nothing is what an object to be created is applied to.
func (ep *Endpoint) Nothing() api.Object { return ep.fields.Nothing() }

// Apply is live, a hub object or Nothing, with config applied to it by manager. Neither is changed.
func (ep *Endpoint) Apply(
	live api.Object, config *unstructured.Unstructured, manager string, force bool,
) (api.Object, error) {
	return ep.fields.Apply(live, config, manager, force)
}

// HasStoredType reports whether what is written here is of the Go type that is stored, and all its fields are known.
func (ep *Endpoint) HasStoredType() bool { return ep.fields.HasStoredType() }

// Track tracks the difference between old (nil for a new object) and obj as its manager's. Of what is unknown the
// difference can't be told: it has no managers then.
func (w Writer) Track(old, obj api.Object, manager string) {
	if w.SubmittedGroupKind != nil {
		obj.SetManagedFields(nil)
		return
	}
	w.fields.Update(old, obj, manager)
}

// IsScale tells whether what comes and goes here are Scales.
func (ep *Endpoint) IsScale() bool { return ep.Sub != nil && ep.Sub.Scale != nil }

// IsAction tells whether nothing is stored through this endpoint: what comes here is done (a binding, an eviction), or
// is a connection.
func (ep *Endpoint) IsAction() bool {
	return ep.Sub != nil && ep.Sub.Strategy == nil && ep.Sub.Scale == nil
}

// OnlyStatus tells whether all that is taken of what is written is the status of a custom resource. Of which kind and
// version the rest is doesn't matter then: upstream looks at what the old object says of that.
func (ep *Endpoint) OnlyStatus() bool {
	return ep.Kind.Custom != nil && ep.Sub != nil && ep.Sub.Name == "status"
}

// subresource is the name of the subresource, "" for the object itself.
func (ep *Endpoint) subresource() string {
	if ep.Sub == nil {
		return ""
	}
	return ep.Sub.Name
}

// Format is how entries are encoded for this endpoint.
func (ep *Endpoint) Format(media codec.MediaType, shape cache.Shape) *cache.Format {
	return ep.Cache.Format(ep.Version.GroupVersion, media, shape)
}

// Columns are those of the Table of its objects.
func (ep *Endpoint) Columns() []metav1.TableColumnDefinition {
	if ep.Version.Row != nil {
		return ep.Version.Columns
	}
	return ep.Kind.Columns
}

// Cells are the row of an object of this version in such a Table.
func (ep *Endpoint) Cells(obj api.Object) []any {
	if ep.Version.Row != nil {
		return ep.Version.Row(obj)
	}
	return ep.Kind.Row(obj)
}

// Check tells what of an object of this version can't be understood.
func (ep *Endpoint) Check(obj api.Object) error {
	if ep.Version.Check == nil {
		return nil
	}
	return ep.Version.Check(obj)
}

// ToWork is an entry whose object is in the form in which writes are worked on.
func (ep *Endpoint) ToWork(e *cache.Entry) (*cache.Entry, error) {
	if ep.Kind.Custom == nil {
		return e, nil
	}
	obj, err := e.In(ep.Kind, ep.Version)
	if err != nil {
		return nil, err
	}
	if obj == e.Object {
		return e, nil
	}
	return &cache.Entry{Key: e.Key, Revision: e.Revision, Object: obj}, nil
}

// ToHub makes a hub object of one of this version.
func (ep *Endpoint) ToHub(obj api.Object) (api.Object, error) {
	if ep.Version.ToHub == nil {
		return obj, nil
	}
	return ep.Version.ToHub(obj)
}

// FromHub makes an object of this version; it may be hub itself.
func (ep *Endpoint) FromHub(hub api.Object) (api.Object, error) {
	if ep.Version.FromHub == nil {
		return hub, nil
	}
	return ep.Version.FromHub(hub)
}

// Unstored makes an entry of an object that was not written: the outcome of a dry run or of a virtual kind.
func Unstored(obj api.Object) *cache.Entry { return &cache.Entry{Object: obj} }

// unwritten is the outcome of a dry run: obj as a read from the store would return it.
func (ep *Endpoint) unwritten(obj api.Object) (*cache.Entry, error) {
	obj, err := ep.Kind.ToStore(obj)
	if err != nil {
		return nil, err
	}
	ep.Cache.Reread(obj)
	return Unstored(obj), nil
}

// withLiveConversion returns an entry that calls the conversion webhook on each conversion.
func (ep *Endpoint) withLiveConversion(e *cache.Entry) *cache.Entry {
	if ep.Kind.Custom == nil || !ep.Kind.Custom.Remote {
		return e
	}
	return &cache.Entry{Key: e.Key, Revision: e.Revision, Object: e.Object}
}

// now is the time of a write, in whole seconds, as objects tell it.
func (ep *Endpoint) now() metav1.Time {
	return metav1.NewTime(ep.registry.config.Clock.Now()).Rfc3339Copy()
}

// held tells whether the object itself keeps from being removed (namespaces with finalizers in their spec, say).
func (ep *Endpoint) held(obj api.Object) bool {
	return ep.Kind.Strategy.HasSpecFinalizers != nil && ep.Kind.Strategy.HasSpecFinalizers(obj)
}

// allocate takes what the object needs to be unique; done is never nil.
func (ep *Endpoint) allocate(
	ctx context.Context, obj, old api.Object, dryRun bool,
) (done func(api.Outcome), err error) {
	if ep.Strategy.Allocate == nil {
		return func(api.Outcome) {}, nil
	}
	done, err = ep.Strategy.Allocate(ctx, obj, old, dryRun)
	if done == nil {
		done = func(api.Outcome) {}
	}
	return done, err
}

// release gives back what a removed object had allocated.
func (ep *Endpoint) release(ctx context.Context, obj api.Object) {
	if ep.Kind.Strategy.Allocate == nil {
		return
	}
	if done, err := ep.Kind.Strategy.Allocate(ctx, nil, obj, false); err == nil && done != nil {
		done(api.Stored)
	}
}
