package fieldmanager

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// converter gives structured merge the versions of one kind: it finds the version of a value by its Go type.
type converter struct {
	kind     *api.Kind
	versions map[reflect.Type]*api.Version
}

func newConverter(kind *api.Kind) *converter { return &converter{kind, versionsByType(kind)} }

// versionsByType finds versions by their Go type. The hub's is the hub, though it may stand for a stored version too.
func versionsByType(kind *api.Kind) map[reflect.Type]*api.Version {
	out := map[reflect.Type]*api.Version{}
	for i := range kind.Versions {
		v := &kind.Versions[i]
		out[reflect.TypeOf(v.New())] = v
	}
	hub := kind.HubVersion()
	out[reflect.TypeOf(hub.New())] = hub
	return out
}

// ConvertToVersion implements runtime.ObjectConvertor. The result may share memory with in.
func (c *converter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gv, ok := target.(schema.GroupVersion)
	if !ok {
		return nil, fmt.Errorf("%s: can't convert to %v", c.kind.Name, target)
	}
	to := c.kind.Version(gv)
	if to == nil {
		return nil, runtime.NewNotRegisteredErrForTarget("quintet", reflect.TypeOf(in), target)
	}
	obj, from, err := c.typed(in)
	if err != nil {
		return nil, err
	}
	if from != to {
		if from.ToHub != nil {
			if obj, err = from.ToHub(obj); err != nil {
				return nil, err
			}
		}
		if to.FromHub != nil {
			if obj, err = to.FromHub(obj); err != nil {
				return nil, err
			}
		}
	}
	return codec.WithKind(obj, to.WithKind(c.kind.Name)), nil
}

// typed makes a Go value of what structured merge puts together.
func (c *converter) typed(in runtime.Object) (api.Object, *api.Version, error) {
	if v := c.versions[reflect.TypeOf(in)]; v != nil {
		return in.(api.Object), v, nil
	}
	u, ok := in.(runtime.Unstructured)
	if !ok {
		return nil, nil, fmt.Errorf("%s: unknown type %T", c.kind.Name, in)
	}
	v := c.kind.Version(in.GetObjectKind().GroupVersionKind().GroupVersion())
	if v == nil {
		return nil, nil, runtime.NewNotRegisteredErrForKind("quintet", in.GetObjectKind().GroupVersionKind())
	}
	obj := v.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), obj); err != nil {
		return nil, nil, fmt.Errorf(
			"unable to convert unstructured object to %v: %w", in.GetObjectKind().GroupVersionKind(), err)
	}
	return obj, v, nil
}

// Convert implements runtime.ObjectConvertor.
func (c *converter) Convert(any, any, any) error { return errNotConverted }

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (c *converter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter.
func (c *converter) Default(in runtime.Object) {
	if v := c.versions[reflect.TypeOf(in)]; v != nil && v.Default != nil {
		v.Default(in.(api.Object))
	}
}

// New implements runtime.ObjectCreater.
func (c *converter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if v := c.kind.Version(gvk.GroupVersion()); v != nil {
		return codec.WithKind(v.New(), gvk), nil
	}
	return nil, runtime.NewNotRegisteredErrForKind("quintet", gvk)
}

var errNotConverted = errors.New("structured merge converts by version only")
