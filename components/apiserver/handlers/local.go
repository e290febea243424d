package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Local is access to stored objects for the server's own parts, past the request chain: no authorization, no admission.
// It implements objects.Store.
type Local struct {
	api       *API
	endpoints map[schema.GroupResource]*endpoint
}

var _ objects.Store = (*Local)(nil)

// Local returns in-process access to the API's objects.
func (a *API) Local() *Local {
	l := &Local{api: a, endpoints: map[schema.GroupResource]*endpoint{}}
	for key, d := range a.endpoints {
		if key.subresource == "" && d.cache != nil && key.GroupVersion == d.kind.Hub {
			l.endpoints[d.resource] = d
		}
	}
	return l
}

// find returns the endpoint to the stored version of a resource, or nil.
func (l *Local) find(resource schema.GroupResource) *endpoint {
	if d := l.endpoints[resource]; d != nil {
		return d
	}
	if custom := l.api.custom.Load(); custom != nil {
		return custom.local[resource]
	}
	return nil
}

// endpoint returns the way to a resource, or the error that clients make of the answer of a server that doesn't serve it.
func (l *Local) endpoint(resource schema.GroupResource, name string) (*endpoint, error) {
	if d := l.find(resource); d != nil {
		return d, nil
	}
	return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, name, "404 page not found", 0, true)
}

// Prepare makes what the first writes of objects of some kinds will need. Those who write before it is done wait for it.
func (l *Local) Prepare(resources ...schema.GroupResource) {
	for _, resource := range resources {
		if d := l.find(resource); d != nil && d.books != nil {
			d.books()
		}
	}
}

// Get implements objects.Reader.
func (l *Local) Get(_ context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	d, err := l.endpoint(resource, name)
	if err != nil {
		return nil, err
	}
	if e, ok := d.cache.Peek(d.cache.Key(namespace, name)); ok {
		return e.Object, nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

// Live implements objects.Reader.
func (l *Local) Live(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	d, err := l.endpoint(resource, name)
	if err != nil {
		return nil, err
	}
	e, err := d.cache.Get(ctx, d.cache.Key(namespace, name), "")
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

// List implements objects.Reader.
func (l *Local) List(_ context.Context, resource schema.GroupResource, namespace string) ([]kinds.Object, error) {
	d, err := l.endpoint(resource, "")
	if err != nil {
		return nil, err
	}
	var out []kinds.Object
	d.cache.PeekList(namespace, func(e *cache.Entry) bool {
		out = append(out, e.Object)
		return true
	})
	return out, nil
}

// Create implements objects.Writer.
func (l *Local) Create(ctx context.Context, resource schema.GroupResource, obj kinds.Object) (kinds.Object, error) {
	d, err := l.endpoint(resource, obj.GetName())
	if err != nil {
		return nil, err
	}
	c := &call{endpoint: d, api: l.api, ctx: ctx, namespace: obj.GetNamespace(), name: obj.GetName()}
	obj = copyOf(obj)
	if d.version.Default != nil {
		d.version.Default(obj)
	}
	obj = c.track(nil, obj, writerOf(resource))
	e, err := c.insertOnce(obj, attributes{})
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

// Update implements objects.Writer.
func (l *Local) Update(ctx context.Context, resource schema.GroupResource, namespace, name string, mutate func(kinds.Object) (kinds.Object, error)) (kinds.Object, error) {
	d, err := l.endpoint(resource, name)
	if err != nil {
		return nil, err
	}
	if resource == pods {
		return l.update(ctx, d, namespace, name, mutate) // bindings and evictions, which are booked on nobody
	}
	return l.update(ctx, d, namespace, name, l.booked(&call{endpoint: d, api: l.api, ctx: ctx, namespace: namespace, name: name}, mutate))
}

// booked is mutate, and books what it does on the server.
func (l *Local) booked(c *call, mutate func(kinds.Object) (kinds.Object, error)) func(kinds.Object) (kinds.Object, error) {
	return func(current kinds.Object) (kinds.Object, error) {
		old := copyOf(current)
		obj, err := mutate(current)
		if err != nil {
			return nil, err
		}
		obj = c.track(old, obj, writerOf(c.resource))
		keepTimes(obj, old)
		return obj, nil
	}
}

var pods = schema.GroupResource{Resource: "pods"}

// manager is who the server's own writes are booked on.
const manager = "kube-apiserver"

// writerOf is who has made an object that the server needs: priority and fairness keep theirs in a name of their own.
func writerOf(resource schema.GroupResource) string {
	if resource.Group == flowcontrolv1.GroupName {
		return "api-priority-and-fairness-config-producer-v1"
	}
	return manager
}

// UpdateStatus implements objects.Writer.
func (l *Local) UpdateStatus(ctx context.Context, resource schema.GroupResource, namespace, name string, mutate func(kinds.Object) (kinds.Object, error)) (kinds.Object, error) {
	status, err := l.statusDoor(resource, name)
	if err != nil {
		return nil, err
	}
	c := &call{endpoint: status, api: l.api, ctx: ctx, namespace: namespace, name: name}
	return l.update(ctx, status, namespace, name, l.booked(c, mutate))
}

func (l *Local) statusDoor(resource schema.GroupResource, name string) (*endpoint, error) {
	d, err := l.endpoint(resource, name)
	if err != nil {
		return nil, err
	}
	if status := l.api.endpoints[doorKey{d.kind.Hub, d.kind.Resource, "status"}]; status != nil {
		return status, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: resource.Group, Resource: resource.Resource + "/status"}, name)
}

// ApplyStatus implements objects.Writer.
func (l *Local) ApplyStatus(ctx context.Context, resource schema.GroupResource, namespace, name, manager string, config any) (kinds.Object, error) {
	status, err := l.statusDoor(resource, name)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, err
	}
	wanted := &unstructured.Unstructured{Object: content}
	return l.update(ctx, status, namespace, name, func(current kinds.Object) (kinds.Object, error) {
		out, err := status.applied(copyOf(current), wanted.DeepCopy(), manager, true)
		if err != nil {
			return nil, err
		}
		obj, ok := out.(kinds.Object)
		if !ok {
			return nil, fmt.Errorf("applying made a %T", out)
		}
		keepTimes(obj, current)
		return obj, nil
	})
}

// update changes an object. As after a request, what only waited for that to go is removed instead.
func (l *Local) update(ctx context.Context, d *endpoint, namespace, name string, mutate func(kinds.Object) (kinds.Object, error)) (kinds.Object, error) {
	c := &call{endpoint: d, api: l.api, ctx: ctx, namespace: namespace, name: name}
	for {
		var removed kinds.Object
		var at int64
		e, err := d.cache.Update(ctx, c.key(), d.kind.TTL, func(current *cache.Entry) (kinds.Object, error) {
			obj, err := mutate(copyOf(current.Object))
			if err != nil {
				return nil, err
			}
			obj.SetResourceVersion(current.Object.GetResourceVersion())
			if c.finished(obj, current.Object) {
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
		if err := c.removeAt(at, removed); !errors.Is(err, errMoved) {
			return removed, err
		}
	}
}

// Delete implements objects.Writer.
func (l *Local) Delete(ctx context.Context, resource schema.GroupResource, namespace, name string, uid types.UID) error {
	d, err := l.endpoint(resource, name)
	if err != nil {
		return err
	}
	c := &call{endpoint: d, api: l.api, ctx: ctx, namespace: namespace, name: name}
	options := &metav1.DeleteOptions{}
	if uid != "" {
		options.Preconditions = metav1.NewUIDPreconditions(string(uid))
	}
	_, _, err = c.remove(options)
	return err
}

// DeletePod deletes a pod as a request does, but for authorization and admission.
func (l *Local) DeletePod(ctx context.Context, namespace, name string, options *metav1.DeleteOptions) error {
	d, err := l.endpoint(pods, name)
	if err != nil {
		return err
	}
	if err := invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(options)); err != nil {
		return err
	}
	c := &call{endpoint: d, api: l.api, ctx: ctx, namespace: namespace, name: name}
	_, _, err = c.remove(options.DeepCopy())
	return err
}

// Feed implements objects.Feeder. A resource that isn't served has no objects. After a watch that fell behind, the
// differences are told. While something in the store can't be read, it tries again and again.
func (l *Local) Feed(ctx context.Context, resource schema.GroupResource, changed func(old, new kinds.Object), synced func()) error {
	d := l.find(resource)
	if d == nil {
		synced()
		<-ctx.Done()
		return nil
	}
	synced = sync.OnceFunc(synced)
	f := feed{cache: d.cache, changed: changed, known: map[string]kinds.Object{}}
	for ctx.Err() == nil {
		err := f.follow(ctx, synced)
		switch {
		case ctx.Err() != nil, apierrors.IsResourceExpired(err):
		case apierrors.IsServiceUnavailable(err):
			// Nothing more will come; when the server stops, its caches may be gone a moment before ctx is.
			<-ctx.Done()
		default:
			klog.FromContext(ctx).Error(err, "Following objects; trying again", "resource", resource)
			select {
			case <-ctx.Done():
			case <-time.After(feedRetry):
			}
		}
	}
	return nil
}

// feedRetry is waited before a feed begins anew.
const feedRetry = time.Second

// feed is one Feed under way; known is what it has told.
type feed struct {
	cache   *cache.Cache
	changed func(old, new kinds.Object)
	known   map[string]kinds.Object
}

// put tells of an object that isn't known as it is. The version alone doesn't say that it is: a store that was restored may give it to
// another one.
func (f *feed) put(e *cache.Entry) {
	old := f.known[e.Key]
	if old != nil && old.GetResourceVersion() == e.Object.GetResourceVersion() && sameContent(old, e.Object) {
		return
	}
	f.known[e.Key] = e.Object
	f.changed(old, e.Object)
}

func (f *feed) drop(key string) {
	if old := f.known[key]; old != nil {
		delete(f.known, key)
		f.changed(old, nil)
	}
}

// follow tells what differs from what is known, and then what changes. State and changes come from one watch: between two
// calls the caches could be filled anew from a store that was restored, to a revision before that of the first.
func (f *feed) follow(ctx context.Context, synced func()) error {
	w, err := f.cache.Watch(ctx, cache.WatchOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := f.begin(ctx, w); err != nil {
		return err
	}
	synced()
	for {
		batch, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, event := range batch {
			switch event.Type {
			case cache.Added, cache.Modified:
				f.put(event.Entry)
			case cache.Deleted:
				f.drop(event.Entry.Key)
			}
		}
	}
}

// begin takes in the state that a watch begins with.
func (f *feed) begin(ctx context.Context, w *cache.Watcher) error {
	seen := make(map[string]bool, len(f.known))
	for !w.Begun() {
		batch, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, event := range batch {
			seen[event.Entry.Key] = true
			f.put(event.Entry)
		}
	}
	for key := range f.known {
		if !seen[key] {
			f.drop(key)
		}
	}
	return nil
}
