package informer

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Factory is a factory of shared informers of all namespaces, each of which is an Informer. It is safe for concurrent
// use.
type Factory struct {
	Groups
	tracker
	client    *rest.RESTClient // nil for a fake clientset
	selection map[reflect.Type]func(*metav1.ListOptions)
}

// tracker tracks which informers were requested and which run. It is a type of its own so that it lies deeper in
// Factory than Groups, whose methods count.
type tracker struct {
	informers.SharedInformerFactory
}

var _ informers.SharedInformerFactory = &Factory{}

// Option is an option of NewFactory.
type Option func(*Factory)

// WithSelection has the informer of objects of that type list and watch with changed options.
func WithSelection(obj runtime.Object, change func(*metav1.ListOptions)) Option {
	return func(f *Factory) { f.selection[reflect.TypeOf(obj)] = change }
}

// NewFactory makes a factory whose informers read as client does, in its content type and at its rate; transform
// changes the objects before they are stored. Of a fake clientset, which has no requests, they are client-go's.
func NewFactory(client kubernetes.Interface, resync time.Duration, transform cache.TransformFunc,
	options ...Option) *Factory {
	f := &Factory{selection: map[reflect.Type]func(*metav1.ListOptions){}}
	f.client, _ = client.CoreV1().RESTClient().(*rest.RESTClient)
	f.tracker.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(client, resync,
		informers.WithTransform(transform))
	f.Groups = GroupsOf(f)
	for _, option := range options {
		option(f)
	}
	return f
}

// InformerFor returns the informer of objects of that type. One of client-go is made if the type is not among those of
// Kubernetes' API, which tell their resource.
func (f *Factory) InformerFor(obj runtime.Object, made internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.tracker.InformerFor(obj, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil || f.client == nil {
			return made(client, resync)
		}
		return New(f.source(kinds[0], f.selection[reflect.TypeOf(obj)]), obj, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
}

// source lists and watches the objects of a kind. The client is that of the core group, and names the path of the
// kind's own group in each request: a client for each group would have its own decoders and limits.
func (f *Factory) source(kind schema.GroupVersionKind, change func(*metav1.ListOptions)) *cache.ListWatch {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	path := "/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		path = "/api/" + kind.Version
	}
	request := func(options *metav1.ListOptions) *rest.Request {
		if change != nil {
			change(options)
		}
		return f.client.Get().AbsPath(path, resource.Resource).VersionedParams(options, metav1.ParameterCodec)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return request(&options).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			return request(&options).Watch(ctx)
		},
	}
}

// WithoutManagedFields is a transform that saves the memory of managed fields, for readers that need none.
func WithoutManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}
