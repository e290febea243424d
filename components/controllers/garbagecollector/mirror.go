package garbagecollector

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// mirror is the store of a reflector that has the graph as its only copy of a resource's objects. It implements
// cache.ReflectorStore.
type mirror struct {
	resource schema.GroupVersionResource
	graph    *graph
	put      func(obj any)
	remove   func(uid types.UID)
	// replaced is closed when the graph has had all objects.
	replaced chan struct{}
	once     sync.Once
}

func (m *mirror) Add(obj any) error {
	m.put(obj)
	return nil
}

func (m *mirror) Update(obj any) error { return m.Add(obj) }

func (m *mirror) Delete(obj any) error {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.remove(o.UID)
	}
	return nil
}

// Replace makes the graph have these objects of the resource and no others.
func (m *mirror) Replace(list []any, _ string) error {
	listed := sets.New[types.UID]()
	for _, obj := range list {
		if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
			listed.Insert(o.UID)
		}
		m.put(obj)
	}
	for _, uid := range m.graph.unlisted(m.resource, listed) {
		m.remove(uid)
	}
	m.once.Do(func() { close(m.replaced) })
	return nil
}

// Resync has nothing to do: the graph is level-triggered by itself.
func (m *mirror) Resync() error { return nil }

// synced tells whether the graph has had all objects.
func (m *mirror) synced() bool {
	select {
	case <-m.replaced:
		return true
	default:
		return false
	}
}

// run keeps the graph in step with the server until ctx ends.
func (m *mirror) run(ctx context.Context, client metadata.Interface) {
	objects := client.Resource(m.resource).Namespace(metav1.NamespaceAll)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, options)
		},
	}, client)
	cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, m,
		cache.ReflectorOptions{Name: "garbage collector", TypeDescription: m.resource.String()}).RunWithContext(ctx)
}
