package informer

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	config *rest.Config
	http   *http.Client

	mu      sync.Mutex
	clients map[schema.GroupVersion]rest.Interface
}

// tracker tracks which informers were requested and which run. It is a type of its own so that it lies deeper in
// Factory than Groups, whose methods count.
type tracker struct {
	informers.SharedInformerFactory
}

var _ informers.SharedInformerFactory = &Factory{}

// NewFactory makes a factory whose informers read as client does, which is made of config; transform changes the
// objects before they are stored.
func NewFactory(client *kubernetes.Clientset, config *rest.Config, resync time.Duration,
	transform cache.TransformFunc) *Factory {
	f := &Factory{config: rest.CopyConfig(config), clients: map[schema.GroupVersion]rest.Interface{}}
	if core, ok := client.CoreV1().RESTClient().(*rest.RESTClient); ok {
		f.http, f.config.RateLimiter = core.Client, core.GetRateLimiter()
	}
	f.tracker.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(client, resync,
		informers.WithTransform(transform))
	f.Groups = GroupsOf(f)
	return f
}

// InformerFor returns the informer of objects of that type. One of client-go is made if the type is not among those of
// Kubernetes' API, which tell their resource.
func (f *Factory) InformerFor(obj runtime.Object, made internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.tracker.InformerFor(obj, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		source, err := f.source(obj)
		if err != nil {
			return made(client, resync)
		}
		return New(source, obj, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
}

// source lists and watches the objects of a type.
func (f *Factory) source(obj runtime.Object) (cache.ListerWatcher, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	client, err := f.client(kinds[0].GroupVersion())
	if err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return cache.NewFilteredListWatchFromClient(client, resource.Resource, metav1.NamespaceAll,
		func(*metav1.ListOptions) {}), nil
}

func (f *Factory) client(gv schema.GroupVersion) (rest.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if client := f.clients[gv]; client != nil {
		return client, nil
	}
	config := rest.CopyConfig(f.config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(config, f.http)
	if err == nil {
		f.clients[gv] = client
	}
	return client, err
}
