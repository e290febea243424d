package registry

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Feed implements objects.Feeder. A resource that isn't served has no objects. After a watch that fell behind, the
// differences are told. While something in the store can't be read, it tries again and again.
func (l *Local) Feed(
	ctx context.Context, resource schema.GroupResource, changed func(old, new api.Object), synced func(),
) error {
	ep := l.find(resource)
	if ep == nil {
		synced()
		<-ctx.Done()
		return nil
	}
	synced = sync.OnceFunc(synced)
	f := feed{cache: ep.Cache, changed: changed, known: map[string]api.Object{}}
	for ctx.Err() == nil {
		err := f.follow(ctx, synced)
		switch {
		case ctx.Err() != nil, apierrors.IsResourceExpired(err):
		case apierrors.IsServiceUnavailable(err):
			// Nothing more will come; when the server stops, its caches may be gone a moment before ctx is.
			<-ctx.Done()
		default:
			klog.FromContext(ctx).Error(err, "Failed to watch objects; retrying", "resource", resource)
			select {
			case <-ctx.Done():
			case <-time.After(feedRetry):
			}
		}
	}
	return nil
}

// feedRetry is the delay before a failed feed is restarted.
const feedRetry = time.Second

// feed is one Feed under way; known is what it has told.
type feed struct {
	cache   *cache.Cache
	changed func(old, new api.Object)
	known   map[string]api.Object
}

// put tells of an object that isn't known as it is. The version alone doesn't say that it is: a store that was restored
// may give it to another one.
func (f *feed) put(e *cache.Entry) {
	old := f.known[e.Key]
	if old != nil && old.GetResourceVersion() == e.Object.GetResourceVersion() && codec.SameContent(old, e.Object) {
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

// follow reports what differs from the known state, and then the changes. State and changes come from one watch:
// between two calls the caches could be refilled from a restored store, at a revision before that of the first.
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
