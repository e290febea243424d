// Package informer has shared informers that cost few goroutines: an informer has those of its reflector, and a handler
// one while there are events for it. client-go's have three more each, and two for each handler, which adds up where a
// process has hundreds of informers or dozens of clusters.
package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Informer implements cache.SharedIndexInformer. All its handlers get resyncs at its period, and its reflector handles
// errors of watches in client-go's default way: neither can be changed. Where there are no resyncs, handlers may ask
// for a period and get none, as with client-go's, for libraries do so without a look at errors. It is safe for
// concurrent use.
type Informer struct {
	source  cache.ListerWatcher
	example runtime.Object
	resync  time.Duration
	indexer cache.Indexer
	synced  chan struct{} // closed when the indexer has had all objects

	mu        sync.Mutex // held while the indexer changes, so that handlers get all changes in their order
	transform cache.TransformFunc
	reflector *cache.Reflector // nil before Run
	stopped   bool
	handlers  sets.Set[*handler]
	running   sync.WaitGroup // handlers that get events
}

var _ cache.SharedIndexInformer = &Informer{}

// New makes an informer of the objects of source, which are of the type of example. Without a resync period there are
// no resyncs.
func New(source cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) *Informer {
	return &Informer{
		source: source, example: example, resync: resync, synced: make(chan struct{}), handlers: sets.Set[*handler]{},
		indexer: cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers),
	}
}

var (
	errStarted = errors.New("the informer has started already")
	errStopped = errors.New("the informer has stopped already")
)

// Run implements cache.SharedInformer.
func (i *Informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext follows the objects until ctx ends, and returns when no handler is being called any more. It may be
// called once.
func (i *Informer) RunWithContext(ctx context.Context) {
	i.mu.Lock()
	started := i.reflector != nil
	if !started {
		i.reflector = cache.NewReflectorWithOptions(i.source, i.example, store{i},
			cache.ReflectorOptions{ResyncPeriod: i.resync})
	}
	i.mu.Unlock()
	if started {
		klog.FromContext(ctx).Info("Warning: an informer is run again; ignoring it", "informer", i.Name())
		return
	}
	i.reflector.RunWithContext(ctx)
	i.mu.Lock()
	i.stopped = true
	for h := range i.handlers {
		h.pending = nil
	}
	i.mu.Unlock()
	i.running.Wait()
}

// Name and Done implement cache.DoneChecker.
func (i *Informer) Name() string { return fmt.Sprintf("informer of %T", i.example) }

// Done is closed when the indexer has had all objects.
func (i *Informer) Done() <-chan struct{} { return i.synced }

// HasSynced implements cache.SharedInformer, as do the methods below.
func (i *Informer) HasSynced() bool                     { return isClosed(i.synced) }
func (i *Informer) HasSyncedChecker() cache.DoneChecker { return i }
func (i *Informer) GetStore() cache.Store               { return i.indexer }
func (i *Informer) GetIndexer() cache.Indexer           { return i.indexer }
func (i *Informer) GetController() cache.Controller     { return i }

func (i *Informer) LastSyncResourceVersion() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reflector == nil {
		return ""
	}
	return i.reflector.LastSyncResourceVersion()
}

func (i *Informer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

func (i *Informer) AddIndexers(indexers cache.Indexers) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return errStopped
	}
	return i.indexer.AddIndexers(indexers)
}

func (i *Informer) SetTransform(transform cache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reflector != nil {
		return errStarted
	}
	i.transform = transform
	return nil
}

func (i *Informer) SetWatchErrorHandler(cache.WatchErrorHandler) error {
	return errors.New("informer: errors of watches are handled in the default way")
}

func (i *Informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return i.SetWatchErrorHandler(nil)
}

func (i *Informer) AddEventHandlerWithResyncPeriod(to cache.ResourceEventHandler,
	period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(to, cache.HandlerOptions{ResyncPeriod: &period})
}

func (i *Informer) AddEventHandlerWithOptions(to cache.ResourceEventHandler,
	o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	if i.resync > 0 && o.ResyncPeriod != nil && *o.ResyncPeriod != i.resync {
		return nil, fmt.Errorf("informer: a resync period of %v can't be had, that of all handlers is %v", *o.ResyncPeriod,
			i.resync)
	}
	return i.AddEventHandler(to)
}

// AddEventHandler tells a handler of the objects that are there, and then of all changes. A handler is called from one
// goroutine at a time; it may be slow, and holds no other up.
func (i *Informer) AddEventHandler(to cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return nil, errStopped
	}
	h := &handler{informer: i, to: to, synced: make(chan struct{})}
	i.handlers.Insert(h)
	for _, obj := range i.indexer.List() {
		h.enqueue(func(to cache.ResourceEventHandler) { to.OnAdd(obj, true) })
	}
	if i.HasSynced() {
		h.enqueue(h.sync)
	}
	return h, nil
}

// RemoveEventHandler ends the calls of a handler, but for one that has begun.
func (i *Informer) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	h, ok := registration.(*handler)
	if !ok || h.informer != i {
		return errors.New("informer: not a handler of this informer")
	}
	h.pending = nil
	i.handlers.Delete(h)
	return nil
}

// event is a call of a handler.
type event func(to cache.ResourceEventHandler)

// distribute is called with the lock held.
func (i *Informer) distribute(e event) {
	for h := range i.handlers {
		h.enqueue(e)
	}
}

// handler has the events that one handler is still to get. It implements cache.ResourceEventHandlerRegistration.
type handler struct {
	informer *Informer
	to       cache.ResourceEventHandler
	synced   chan struct{} // closed when the handler has had all objects

	// both are guarded by the informer's lock
	pending    []event
	delivering bool
}

func (h *handler) HasSynced() bool                     { return isClosed(h.synced) }
func (h *handler) HasSyncedChecker() cache.DoneChecker { return h }
func (h *handler) Name() string                        { return "handler of " + h.informer.Name() }
func (h *handler) Done() <-chan struct{}               { return h.synced }

// sync is the event that comes after all objects.
func (h *handler) sync(cache.ResourceEventHandler) { close(h.synced) }

func (h *handler) enqueue(e event) {
	h.pending = append(h.pending, e)
	if !h.delivering {
		h.delivering = true
		h.informer.running.Go(h.deliver)
	}
}

// deliver calls the handler until there are no events for it.
func (h *handler) deliver() {
	for e := h.next(); e != nil; e = h.next() {
		h.call(e)
	}
}

// next is nil if there is no event: deliver ends then.
func (h *handler) next() event {
	h.informer.mu.Lock()
	defer h.informer.mu.Unlock()
	if len(h.pending) == 0 {
		h.delivering = false
		return nil
	}
	next := h.pending[0]
	if h.pending = h.pending[1:]; len(h.pending) == 0 {
		h.pending = nil
	}
	return next
}

// call calls the handler. One that panics ends the process, or, as with client-go's (runtime.ReallyCrash), that call.
func (h *handler) call(e event) {
	defer utilruntime.HandleCrashWithContext(context.Background())
	e(h.to)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
