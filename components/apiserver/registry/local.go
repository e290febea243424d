package registry

import (
	"context"
	"errors"
	"net/http"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Local is access to stored objects for the server's own parts, past the request chain: no authorization, no admission.
// It implements objects.Store.
type Local struct {
	registry  *Registry
	endpoints map[schema.GroupResource]*Endpoint // to the stored versions
}

var _ objects.Store = (*Local)(nil)

// Local returns in-process access to the objects of a registry, which is to have no admission.
func (g *Registry) Local() *Local {
	l := &Local{registry: g, endpoints: map[schema.GroupResource]*Endpoint{}}
	for key, ep := range g.endpoints {
		if key.Subresource == "" && ep.Cache != nil && key.GroupVersion == ep.Kind.Hub {
			l.endpoints[ep.Resource] = ep
		}
	}
	return l
}

// Install replaces the custom resources that can be reached; see Registry.Install.
func (l *Local) Install(resources []Resource) { l.registry.Install(resources) }

// find returns the endpoint to the stored version of a resource, or nil.
func (l *Local) find(resource schema.GroupResource) *Endpoint {
	if ep := l.endpoints[resource]; ep != nil {
		return ep
	}
	if custom := l.registry.custom.Load(); custom != nil {
		return custom.local[resource]
	}
	return nil
}

// endpoint returns the way to a resource, or the error that clients make of the answer of a server that doesn't serve
// it.
func (l *Local) endpoint(resource schema.GroupResource, name string) (*Endpoint, error) {
	if ep := l.find(resource); ep != nil {
		return ep, nil
	}
	return nil, apierrors.NewGenericServerResponse(
		http.StatusNotFound, "get", resource, name, "404 page not found", 0, true)
}

// statusEndpoint returns the way to the status of a resource's objects.
func (l *Local) statusEndpoint(resource schema.GroupResource, name string) (*Endpoint, error) {
	ep, err := l.endpoint(resource, name)
	if err != nil {
		return nil, err
	}
	if status := l.registry.endpoints[Key{ep.Kind.Hub, ep.Kind.Resource, "status"}]; status != nil {
		return status, nil
	}
	resource.Resource += "/status"
	return nil, apierrors.NewNotFound(resource, name)
}

// Prepare builds what the first writes of objects of some kinds need. Writes that come before it is done wait for it.
func (l *Local) Prepare(resources ...schema.GroupResource) {
	for _, resource := range resources {
		if ep := l.find(resource); ep != nil {
			ep.fields.Prepare()
		}
	}
}

// Get implements objects.Reader.
func (l *Local) Get(_ context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error) {
	ep, err := l.endpoint(resource, name)
	if err != nil {
		return nil, err
	}
	if e, ok := ep.Cache.Peek(ep.Cache.Key(namespace, name)); ok {
		return e.Object, nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

// Live implements objects.Reader.
func (l *Local) Live(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error) {
	ep, err := l.endpoint(resource, name)
	if err != nil {
		return nil, err
	}
	e, err := ep.Cache.Get(ctx, ep.Cache.Key(namespace, name), "")
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

// List implements objects.Reader.
func (l *Local) List(_ context.Context, resource schema.GroupResource, namespace string) ([]api.Object, error) {
	ep, err := l.endpoint(resource, "")
	if err != nil {
		return nil, err
	}
	var out []api.Object
	ep.Cache.PeekList(namespace, func(e *cache.Entry) bool {
		out = append(out, e.Object)
		return true
	})
	return out, nil
}

// Create implements objects.Writer.
func (l *Local) Create(ctx context.Context, resource schema.GroupResource, obj api.Object) (api.Object, error) {
	ep, err := l.endpoint(resource, obj.GetName())
	if err != nil {
		return nil, err
	}
	w := ep.Writer(&Request{Namespace: obj.GetNamespace(), Name: obj.GetName()})
	obj = copyOf(obj)
	if ep.Version.Default != nil {
		ep.Version.Default(obj)
	}
	w.Track(nil, obj, managerOf(resource))
	e, err := w.insertOnce(ctx, obj, attributes{})
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

// Update implements objects.Writer.
func (l *Local) Update(
	ctx context.Context, resource schema.GroupResource, namespace, name string,
	mutate func(api.Object) (api.Object, error),
) (api.Object, error) {
	ep, err := l.endpoint(resource, name)
	if err != nil {
		return nil, err
	}
	w := ep.Writer(&Request{Namespace: namespace, Name: name})
	if resource != pods { // the fields that bindings and evictions set have no manager
		mutate = tracked(w, mutate)
	}
	return updateStored(ctx, w, mutate)
}

// UpdateStatus implements objects.Writer.
func (l *Local) UpdateStatus(
	ctx context.Context, resource schema.GroupResource, namespace, name string,
	mutate func(api.Object) (api.Object, error),
) (api.Object, error) {
	ep, err := l.statusEndpoint(resource, name)
	if err != nil {
		return nil, err
	}
	w := ep.Writer(&Request{Namespace: namespace, Name: name})
	return updateStored(ctx, w, tracked(w, mutate))
}

// tracked is mutate, and records the server as the manager of the fields it sets.
func tracked(
	w Writer, mutate func(api.Object) (api.Object, error),
) func(api.Object) (api.Object, error) {
	return func(current api.Object) (api.Object, error) {
		old := copyOf(current)
		obj, err := mutate(current)
		if err != nil {
			return nil, err
		}
		w.Track(old, obj, managerOf(w.Resource))
		fieldmanager.IgnoreTimestampOnly(obj, old)
		return obj, nil
	}
}

var pods = schema.GroupResource{Resource: "pods"}

// managerOf is the field manager of an object that the server needs: priority and fairness keep theirs in a name of
// their own.
func managerOf(resource schema.GroupResource) string {
	if resource.Group == flowcontrolv1.GroupName {
		return "api-priority-and-fairness-config-producer-v1"
	}
	return "kube-apiserver"
}

// ApplyStatus implements objects.Writer.
func (l *Local) ApplyStatus(
	ctx context.Context, resource schema.GroupResource, namespace, name, manager string, config any,
) (api.Object, error) {
	ep, err := l.statusEndpoint(resource, name)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, err
	}
	wanted := &unstructured.Unstructured{Object: content}
	w := ep.Writer(&Request{Namespace: namespace, Name: name})
	return updateStored(ctx, w, func(current api.Object) (api.Object, error) {
		obj, err := ep.Apply(current, wanted, manager, true)
		if err != nil {
			return nil, err
		}
		fieldmanager.IgnoreTimestampOnly(obj, current)
		return obj, nil
	})
}

// updateStored changes an object past admission and strategy. As after a request, what only waited for that to go is
// removed instead.
func updateStored(
	ctx context.Context, w Writer, mutate func(api.Object) (api.Object, error),
) (api.Object, error) {
	for {
		var removed api.Object
		var at int64
		e, err := w.Cache.Update(ctx, w.key(), w.Kind.TTL, func(current *cache.Entry) (api.Object, error) {
			obj, err := mutate(copyOf(current.Object))
			if err != nil {
				return nil, err
			}
			obj.SetResourceVersion(current.Object.GetResourceVersion())
			if w.finished(obj, current.Object) {
				removed, at = obj, current.Revision
				return nil, errRemove
			}
			return obj, nil
		})
		switch {
		case err == nil:
			return e.Object, nil
		case !errors.Is(err, errRemove):
			return nil, err
		}
		if err := w.removeAt(ctx, at, removed); !errors.Is(err, errMoved) {
			return removed, err
		}
	}
}

// Delete implements objects.Writer.
func (l *Local) Delete(ctx context.Context, resource schema.GroupResource, namespace, name string,
	uid types.UID) error {
	ep, err := l.endpoint(resource, name)
	if err != nil {
		return err
	}
	options := &metav1.DeleteOptions{}
	if uid != "" {
		options.Preconditions = metav1.NewUIDPreconditions(string(uid))
	}
	_, _, err = ep.Writer(&Request{Namespace: namespace, Name: name}).Delete(ctx, options)
	return err
}

// DeletePod deletes a pod as a request does, but for authorization and admission.
func (l *Local) DeletePod(ctx context.Context, namespace, name string, options *metav1.DeleteOptions) error {
	ep, err := l.endpoint(pods, name)
	if err != nil {
		return err
	}
	if errs := validation.ValidateDeleteOptions(options); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	_, _, err = ep.Writer(&Request{Namespace: namespace, Name: name}).Delete(ctx, options.DeepCopy())
	return err
}
