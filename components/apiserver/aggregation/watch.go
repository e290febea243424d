package aggregation

import (
	"context"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// watch looks at the remotes for as long as there are any, and makes each look again when its Service changes. All but
// changed is for one goroutine.
type watch struct {
	owner  *Aggregator
	looked map[*remote]context.CancelFunc
	stop   context.CancelFunc // ends the feeds; nil if there are none
	work   sync.WaitGroup

	mu        sync.Mutex
	byService map[types.NamespacedName][]*remote
}

// keep looks at these remotes and no others.
func (w *watch) keep(ctx context.Context, remotes map[string]*remote) {
	now := make(map[*remote]context.CancelFunc, len(remotes))
	byService := map[types.NamespacedName][]*remote{}
	for _, r := range remotes {
		name := types.NamespacedName{Namespace: r.spec.Service.Namespace, Name: r.spec.Service.Name}
		byService[name] = append(byService[name], r)
		if now[r] = w.looked[r]; now[r] == nil {
			looking, stop := context.WithCancel(ctx)
			now[r] = stop
			w.work.Go(func() {
				defer r.close()
				r.run(looking)
			})
		}
	}
	for r, stop := range w.looked {
		if now[r] == nil {
			stop()
		}
	}
	w.looked = now
	w.mu.Lock()
	w.byService = byService
	w.mu.Unlock()
	w.feed(ctx)
}

// feed follows Services and their endpoints while there is a remote: in most clusters there is none, and many of those.
func (w *watch) feed(ctx context.Context) {
	switch {
	case len(w.looked) > 0 && w.stop == nil:
		feeding, stop := context.WithCancel(ctx)
		w.stop = stop
		w.work.Go(func() { w.follow(feeding) })
	case len(w.looked) == 0 && w.stop != nil:
		w.stop()
		w.stop = nil
	}
}

func (w *watch) follow(ctx context.Context) {
	var both sync.WaitGroup
	defer both.Wait()
	for _, resource := range watched {
		both.Go(func() {
			changed := func(old, new api.Object) {
				if new == nil {
					new = old
				}
				w.changed(serviceOf(new))
			}
			if err := w.owner.config.Objects.Feed(ctx, resource, changed, func() {}); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Failed to watch Services; changes are noticed late", "resource",
					resource)
			}
		})
	}
}

// serviceOf is the Service that an object is, or is part of.
func serviceOf(obj api.Object) types.NamespacedName {
	name := obj.GetName()
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
		name = slice.Labels[discoveryv1.LabelServiceName]
	}
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}
}

func (w *watch) changed(service types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.byService[service] {
		r.checkNow()
	}
}

// end stops looking, and returns when the last has stopped.
func (w *watch) end() {
	for _, stop := range w.looked {
		stop()
	}
	if w.stop != nil {
		w.stop()
	}
	w.work.Wait()
}
