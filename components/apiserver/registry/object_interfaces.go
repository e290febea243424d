package registry

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// objectInterfaces is what admission needs to know of objects that it shows to others, and takes back from them, in
// versions of their choice: of the kinds of the program and of custom resources alike. It implements
// admission.ObjectInterfaces and its parts.
type objectInterfaces struct {
	*Registry
	types map[reflect.Type]*api.Version // of the kinds of the program
	kinds map[schema.GroupVersionKind]*api.Version
}

var _ admission.ObjectInterfaces = &objectInterfaces{}

func newObjectInterfaces(g *Registry) *objectInterfaces {
	i := &objectInterfaces{Registry: g, types: map[reflect.Type]*api.Version{},
		kinds: map[schema.GroupVersionKind]*api.Version{}}
	for _, r := range g.config.Resources {
		for n := range r.Kind.Versions {
			v := &r.Kind.Versions[n]
			i.types[reflect.TypeOf(v.New())] = v
			i.kinds[v.WithKind(r.Kind.Name)] = v
		}
		for n := range r.Kind.RemovedVersions { // what comes back may say that it is of such
			i.types[reflect.TypeOf(r.Kind.RemovedVersions[n].New())] = &r.Kind.RemovedVersions[n]
		}
	}
	return i
}

func (i *objectInterfaces) GetObjectCreater() runtime.ObjectCreater     { return i }
func (i *objectInterfaces) GetObjectTyper() runtime.ObjectTyper         { return i.config.Scheme }
func (i *objectInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return i }
func (i *objectInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return i }
func (i *objectInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return i
}

// version is the version of a kind that obj has; nil for what is no object of the table (scales, options).
func (i *objectInterfaces) version(obj any) *api.Version {
	if u, ok := obj.(runtime.Unstructured); ok {
		return i.versionOf(u.GetObjectKind().GroupVersionKind())
	}
	return i.types[reflect.TypeOf(obj)]
}

func (i *objectInterfaces) versionOf(gvk schema.GroupVersionKind) *api.Version {
	if v := i.kinds[gvk]; v != nil {
		return v
	}
	if kind := i.customKind(gvk); kind != nil {
		return kind.Version(gvk.GroupVersion())
	}
	return nil
}

func (i *objectInterfaces) customKind(gvk schema.GroupVersionKind) *api.Kind {
	if custom := i.custom.Load(); custom != nil {
		return custom.kinds[gvk]
	}
	return nil
}

// New implements runtime.ObjectCreater. As with upstream, only what is unstructured says of itself what it is.
func (i *objectInterfaces) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if v := i.versionOf(gvk); v != nil {
		return v.New(), nil
	}
	return i.config.Scheme.New(gvk)
}

// Default implements runtime.ObjectDefaulter.
func (i *objectInterfaces) Default(in runtime.Object) {
	if v := i.version(in); v != nil && v.Default != nil {
		v.Default(in.(api.Object))
	}
}

// Convert implements runtime.ObjectConvertor: it makes out, of which the type (or, if it is unstructured, what it says
// of itself) tells the version, the same object as in. Of in nothing is changed, but the two may share what they point
// to.
func (i *objectInterfaces) Convert(in, out, _ any) error {
	if u, ok := out.(*unstructured.Unstructured); ok {
		if kind := i.customKind(u.GroupVersionKind()); kind != nil {
			return convertCustom(in, u, kind)
		}
	}
	obj, err := i.typed(in)
	if err != nil {
		return err
	}
	if from, to := i.version(obj), i.version(out); from != to {
		if obj, err = convert(obj, from, to); err != nil {
			return err
		}
	}
	target, ok := out.(runtime.Object)
	if !ok || reflect.TypeOf(obj) != reflect.TypeOf(out) {
		return fmt.Errorf("can't convert %T to %T", in, out)
	}
	kind := target.GetObjectKind().GroupVersionKind()
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(codec.ShallowCopy(obj)).Elem())
	target.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// convertCustom is Convert for a custom resource. Its version is asked for, not its kind: that another one was made of
// it is for the validation to tell. What its schema doesn't know stays in it.
func convertCustom(in any, out *unstructured.Unstructured, kind *api.Kind) error {
	obj, ok := in.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("can't convert %T to %T", in, out)
	}
	if from := obj.GroupVersionKind().GroupVersion(); kind.Version(from) == nil {
		return fmt.Errorf("request to convert CR from an invalid group/version: %s", from)
	}
	converted, err := kind.Custom.Convert(obj, out.GroupVersionKind().GroupVersion())
	if err != nil {
		return err
	}
	out.SetUnstructuredContent(converted.(*unstructured.Unstructured).Object)
	return nil
}

// typed is in as its Go type, if it is unstructured content of a kind that has one: policies compute with such.
func (i *objectInterfaces) typed(in any) (runtime.Object, error) {
	obj, ok := in.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("can't convert %T", in)
	}
	u, free := in.(runtime.Unstructured)
	if !free || !i.config.Scheme.Recognizes(obj.GetObjectKind().GroupVersionKind()) {
		return obj, nil
	}
	out, err := i.config.Scheme.New(obj.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), out)
}

func convert(in runtime.Object, from, to *api.Version) (runtime.Object, error) {
	obj, ok := in.(api.Object)
	if !ok || from == nil || to == nil {
		return nil, fmt.Errorf("can't convert a %T to another version", in)
	}
	var err error
	if from.ToHub != nil { // never of a custom resource
		if obj, err = from.ToHub(obj); err != nil {
			return nil, err
		}
	}
	if to.FromHub != nil {
		obj, err = to.FromHub(obj)
	}
	return obj, err
}

// ConvertToVersion implements runtime.ObjectConvertor. Between two versions of a kind that has Go types it fails, as
// upstream's does, which knows of no way but by internal types: a policy that mutates objects in another version than
// the request's is refused by that.
func (i *objectInterfaces) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	known, _, err := i.config.Scheme.ObjectKinds(in)
	if u, ok := in.(runtime.Unstructured); ok {
		known, err = []schema.GroupVersionKind{u.GetObjectKind().GroupVersionKind()}, nil
	}
	if err != nil {
		return nil, err
	}
	gvk, ok := target.KindForGroupVersionKinds(known)
	if !ok {
		return nil, runtime.NewNotRegisteredErrForTarget(i.config.Scheme.Name(), i.goType(in), target)
	}
	out, err := i.New(gvk)
	if err != nil {
		return nil, err
	}
	if _, free := out.(runtime.Unstructured); !free && !slices.Contains(known, gvk) {
		return nil, fmt.Errorf("converting (%s) to (%s): unknown conversion", i.goType(in), reflect.TypeOf(out).Elem())
	}
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out, i.Convert(in, out, nil)
}

// goType is the Go type of an object, or that of which its unstructured content is.
func (i *objectInterfaces) goType(obj runtime.Object) reflect.Type {
	if typed, err := i.typed(obj); err == nil {
		obj = typed
	}
	return reflect.TypeOf(obj).Elem()
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (i *objectInterfaces) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return i.config.Scheme.ConvertFieldLabel(gvk, label, value)
}

// EquivalentResourcesFor implements runtime.EquivalentResourceMapper: the versions, and other groups, in which the same
// objects are served.
func (i *objectInterfaces) EquivalentResourcesFor(
	resource schema.GroupVersionResource, subresource string,
) []schema.GroupVersionResource {
	ep := i.endpoint(resource, subresource)
	if ep == nil {
		return nil
	}
	var out []schema.GroupVersionResource
	for n := range ep.Kind.Versions {
		same := ep.Kind.Versions[n].WithResource(resource.Resource)
		if i.endpoint(same, subresource) != nil {
			out = append(out, same)
		}
	}
	return out
}

// KindFor implements runtime.EquivalentResourceMapper.
func (i *objectInterfaces) KindFor(resource schema.GroupVersionResource, subresource string) schema.GroupVersionKind {
	if ep := i.endpoint(resource, subresource); ep != nil {
		return ep.GVK
	}
	return schema.GroupVersionKind{}
}
