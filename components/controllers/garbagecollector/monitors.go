package garbagecollector

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// tolerance is how long a resource that can't be listed holds the collector up.
const tolerance = 30 * time.Second

// Ignored resources come and go in masses, are owned by none and own none.
func Ignored() []schema.GroupResource {
	return []schema.GroupResource{{Group: "", Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}}
}

// definitions are the resources that bring resources.
var definitions = map[schema.GroupResource]bool{
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: true,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:             true,
}

// deletable returns the resources that can be collected, with their kinds. On a partial failure it returns what it
// found together with the error.
func deletable(d discovery.ServerResourcesInterface) (map[schema.GroupVersionResource]schema.GroupVersionKind, error) {
	lists, err := d.ServerPreferredResources()
	found, ignored := map[schema.GroupVersionResource]schema.GroupVersionKind{}, Ignored()
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete", "list", "watch"}}, lists)
	for _, list := range lists {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			continue
		}
		for _, r := range list.APIResources {
			if gvr := gv.WithResource(r.Name); !slices.Contains(ignored, gvr.GroupResource()) {
				found[gvr] = gv.WithKind(r.Kind)
			}
		}
	}
	return found, err
}

// monitors watch every deletable resource and tell the graph.
type monitors struct {
	client metadata.Interface
	// shared are informers that run elsewhere.
	shared map[schema.GroupVersionResource]cache.SharedIndexInformer
	graph  *graph
	clock  clock.PassiveClock
	notify func([]task)
	// defined is called when CustomResourceDefinitions change.
	defined func()

	mu      sync.Mutex
	running map[schema.GroupVersionResource]*monitor
	ended   sync.WaitGroup
}

type monitor struct {
	kind    schema.GroupVersionKind
	stop    func()
	synced  cache.InformerSynced
	started time.Time
}

// follow starts and stops monitors so that exactly resources are watched.
func (m *monitors) follow(ctx context.Context,
	resources map[schema.GroupVersionResource]schema.GroupVersionKind) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for resource, kind := range resources {
		if m.running[resource] != nil {
			continue
		}
		started, err := m.start(ctx, resource, kind)
		if err != nil {
			return err
		}
		m.running[resource] = started
	}
	for resource, running := range m.running {
		if _, still := resources[resource]; !still {
			running.stop()
			delete(m.running, resource)
			m.graph.drop(resource)
		}
	}
	return nil
}

func (m *monitors) start(ctx context.Context, resource schema.GroupVersionResource,
	kind schema.GroupVersionKind) (*monitor, error) {
	put, remove := m.sink(resource, kind)
	if informer := m.shared[resource]; informer != nil {
		registration, err := informer.AddEventHandler(handler(put, remove))
		if err != nil {
			return nil, err
		}
		stop := func() { _ = informer.RemoveEventHandler(registration) }
		return &monitor{kind: kind, stop: stop, synced: registration.HasSynced, started: m.clock.Now()}, nil
	}
	mirror := &mirror{resource: resource, graph: m.graph, put: put, remove: remove, replaced: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	m.ended.Go(func() { mirror.run(ctx, m.client) })
	return &monitor{kind: kind, stop: cancel, synced: mirror.synced, started: m.clock.Now()}, nil
}

// ready tells whether the graph is whole. A resource that can't be read counts as empty after a while.
func (m *monitors) ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.running) == 0 {
		return false
	}
	for _, running := range m.running {
		if !running.synced() && m.clock.Since(running.started) < tolerance {
			return false
		}
	}
	return true
}

// sink returns what tells the graph of objects of a resource that are there, and of those that are gone.
func (m *monitors) sink(resource schema.GroupVersionResource,
	kind schema.GroupVersionKind) (put func(obj any), remove func(types.UID)) {
	defines := definitions[resource.GroupResource()]
	put = func(obj any) {
		if o := newObject(resource, kind, obj); o != nil {
			m.notify(m.graph.put(o))
		}
		if defines {
			m.defined()
		}
	}
	remove = func(uid types.UID) {
		m.notify(m.graph.remove(uid))
		if defines {
			m.defined()
		}
	}
	return put, remove
}

// handler makes events of an informer puts and removals.
func handler(put func(obj any), remove func(types.UID)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, now any) { put(now) },
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if accessor, err := meta.Accessor(obj); err == nil {
				remove(accessor.GetUID())
			}
		},
	}
}

func newObject(resource schema.GroupVersionResource, kind schema.GroupVersionKind, obj any) *object {
	runtimeObject, ok := obj.(runtime.Object)
	if !ok {
		return nil
	}
	accessor, err := meta.Accessor(runtimeObject)
	if err != nil {
		return nil
	}
	o := &object{
		resource: resource, kind: kind,
		namespace: accessor.GetNamespace(), name: accessor.GetName(), uid: accessor.GetUID(),
		owners:  accessor.GetOwnerReferences(),
		deleted: accessor.GetDeletionTimestamp() != nil,
	}
	for _, finalizer := range accessor.GetFinalizers() {
		o.foreground = o.foreground || finalizer == metav1.FinalizerDeleteDependents
		o.orphan = o.orphan || finalizer == metav1.FinalizerOrphanDependents
	}
	return o
}

// stop ends all monitors and waits for them.
func (m *monitors) stop() {
	m.mu.Lock()
	for resource, running := range m.running {
		running.stop()
		delete(m.running, resource)
	}
	m.mu.Unlock()
	m.ended.Wait()
}
