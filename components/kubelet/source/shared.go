package source

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/internal/alike"
)

// Shared is one watch of the objects of many nodes, fanned out to each node's source. It runs while a source does. It
// is safe for concurrent use.
type Shared[T runtime.Object] struct {
	// Watch tells how the objects are read; it is called by the first source.
	Watch func() cache.ListerWatcher
	// Example is an object of the kind.
	Example T
	// Node names the node that an object is of; "" is none. It never changes from one name to another.
	Node func(T) string

	alike alike.Pool // of all nodes' objects

	running sync.Mutex // held while the watch begins and ends
	sources int
	stop    context.CancelFunc
	done    chan struct{}

	mu       sync.Mutex // held while handlers are called
	objects  cache.Indexer
	synced   bool
	handlers map[string]map[*Handler[T]]bool // by node
}

const byNode = "node"

// Of is the source of a node's objects. Its handler is called from the goroutine of all nodes, and must not wait.
func (s *Shared[T]) Of(node string) Source[T] {
	return func(ctx context.Context, h Handler[T]) {
		s.join(node, &h)
		defer s.leave(node, &h)
		<-ctx.Done()
	}
}

func (s *Shared[T]) join(node string, h *Handler[T]) {
	s.running.Lock()
	defer s.running.Unlock()
	if s.sources++; s.sources == 1 {
		s.begin()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handlers[node] == nil {
		s.handlers[node] = map[*Handler[T]]bool{}
	}
	s.handlers[node][h] = true
	found, _ := s.objects.ByIndex(byNode, node) // the index is there
	for _, object := range found {
		h.Set(object.(T))
	}
	if s.synced && h.Synced != nil {
		h.Synced()
	}
}

func (s *Shared[T]) leave(node string, h *Handler[T]) {
	s.running.Lock()
	defer s.running.Unlock()
	s.mu.Lock()
	delete(s.handlers[node], h)
	if len(s.handlers[node]) == 0 {
		delete(s.handlers, node)
	}
	s.mu.Unlock()
	if s.sources--; s.sources == 0 {
		s.stop()
		<-s.done
	}
}

// begin starts the watch; it is called with running held.
func (s *Shared[T]) begin() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.done = stop, make(chan struct{})
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: s.Watch(), ObjectType: s.Example, Transform: s.alike.Transform,
		Indexers: cache.Indexers{byNode: func(object any) ([]string, error) { return []string{s.Node(object.(T))}, nil }},
		Handler:  events(Handler[T]{Set: s.set, Gone: s.gone}),
	})
	s.mu.Lock()
	s.objects, s.synced, s.handlers = store.(cache.Indexer), false, map[string]map[*Handler[T]]bool{}
	s.mu.Unlock()
	var group sync.WaitGroup
	group.Go(func() { controller.RunWithContext(ctx) })
	group.Go(func() {
		if cache.WaitFor(ctx, "", controller.HasSyncedChecker()) {
			s.allSynced()
		}
	})
	go func() {
		defer close(s.done)
		group.Wait()
	}()
}

func (s *Shared[T]) set(object T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.handlers[s.Node(object)] {
		h.Set(object)
	}
}

func (s *Shared[T]) gone(object T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.handlers[s.Node(object)] {
		h.Gone(object)
	}
}

func (s *Shared[T]) allSynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
	for _, handlers := range s.handlers {
		for h := range handlers {
			if h.Synced != nil {
				h.Synced()
			}
		}
	}
}
