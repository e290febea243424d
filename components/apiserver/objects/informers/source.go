package informers

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// source feeds one informer. A feed is just what a watch is that begins with all objects: its first ones are additions,
// then comes a bookmark, then the changes.
type source struct {
	form
	feeder objects.Feeder

	mu     sync.Mutex
	listed *stream // a feed of which List has taken the first objects, and Watch takes the rest
}

func (s *source) listWatch() cache.ListerWatcher {
	return &cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
}

// watch begins from the start if initial events are requested, else it goes on where the last list ended.
func (s *source) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	listed := s.listed
	s.listed = nil
	s.mu.Unlock()
	if listed == nil {
		return s.begin(ctx), nil
	}
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		listed.Stop()
		return s.begin(ctx), nil
	}
	return listed, nil
}

// list is for informers that were told, by client-go's feature gate WatchListClient, to list before they watch.
func (s *source) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	w := s.begin(ctx)
	list := &metainternal.List{}
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Added:
			list.Items = append(list.Items, event.Object)
		case watch.Bookmark:
			list.ResourceVersion = event.Object.(api.Object).GetResourceVersion()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.listed != nil {
				s.listed.Stop() // no watch was opened from there
			}
			s.listed = w
			return list, nil
		case watch.Error:
			w.Stop()
			return nil, apierrors.FromObject(event.Object)
		}
	}
	return nil, fmt.Errorf("following %s: %w", s.resource, context.Cause(ctx))
}

// stream is a feed under way; it implements watch.Interface.
type stream struct {
	events chan watch.Event
	stop   context.CancelFunc
}

func (w *stream) Stop()                          { w.stop() }
func (w *stream) ResultChan() <-chan watch.Event { return w.events }

// begin feeds until ctx ends or the stream is stopped.
func (s *source) begin(ctx context.Context) *stream {
	ctx, stop := context.WithCancel(ctx)
	w := &stream{events: make(chan watch.Event), stop: stop}
	send := func(kind watch.EventType, obj runtime.Object) {
		select {
		case w.events <- watch.Event{Type: kind, Object: obj}:
		case <-ctx.Done():
		}
	}
	fail := func(err error) { send(watch.Error, &apierrors.NewInternalError(err).ErrStatus) }
	newest := int64(0)
	changed := func(old, new api.Object) {
		kind, obj := watch.Modified, new
		switch {
		case new == nil:
			kind, obj = watch.Deleted, old
		case old == nil:
			kind = watch.Added
		}
		if s.convert != nil {
			var err error
			if obj, err = s.convert(obj); err != nil {
				fail(err)
				return
			}
		}
		if version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64); err == nil {
			newest = max(newest, version)
		}
		send(kind, obj)
	}
	synced := func() {
		bookmark := s.new()
		bookmark.SetResourceVersion(strconv.FormatInt(newest, 10))
		bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		send(watch.Bookmark, bookmark)
	}
	go func() {
		defer close(w.events)
		defer stop()
		if err := s.feeder.Feed(ctx, s.resource, changed, synced); err != nil {
			fail(err)
		}
	}()
	return w
}

// nothing is a Feeder without objects.
type nothing struct{}

func (nothing) Feed(ctx context.Context, _ schema.GroupResource, _ func(old, new api.Object), synced func()) error {
	synced()
	<-ctx.Done()
	return nil
}
