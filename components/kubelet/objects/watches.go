package objects

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/kubelet/source"
)

// Watches watches objects by name, each once for all stores that want it. It is safe for concurrent use.
type Watches struct {
	// Client returns the client to watch with.
	Client func() kubernetes.Interface

	mu      sync.Mutex
	watched map[key]*watched
	wait    sync.WaitGroup
}

// watched is one object.
type watched struct {
	store  cache.Store
	synced func() bool
	stop   context.CancelFunc

	mu     sync.Mutex
	notify map[*item]func()
}

// Wait returns when all watches ended that no store wants.
func (w *Watches) Wait() { w.wait.Wait() }

// add watches an object for an item until drop; changed is called when it may have changed.
func (w *Watches) add(k key, it *item, changed func()) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.watched[k]
	if one == nil {
		one = w.begin(k)
		if w.watched == nil {
			w.watched = map[key]*watched{}
		}
		w.watched[k] = one
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	one.notify[it] = changed
	return one
}

func (w *Watches) drop(k key, it *item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.watched[k]
	one.mu.Lock()
	defer one.mu.Unlock()
	delete(one.notify, it)
	if len(one.notify) == 0 {
		one.stop()
		delete(w.watched, k)
	}
}

// begin is called with the lock held.
func (w *Watches) begin(k key) *watched {
	ctx, stop := context.WithCancel(context.Background())
	one := &watched{stop: stop, notify: map[*item]func(){}}
	changed := func(any) { one.changed() }
	options := cache.InformerOptions{Handler: cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
	}}
	client, selector := w.Client(), fields.OneTermEqualSelector(metav1.ObjectNameField, k.name)
	if k.kind == Secret {
		options.ListerWatcher = source.Selected(client.CoreV1().Secrets(k.namespace), selector, client)
		options.ObjectType = &v1.Secret{}
	} else {
		options.ListerWatcher = source.Selected(client.CoreV1().ConfigMaps(k.namespace), selector, client)
		options.ObjectType = &v1.ConfigMap{}
	}
	store, controller := cache.NewInformerWithOptions(options)
	one.store, one.synced = store, controller.HasSynced
	w.wait.Go(func() { controller.RunWithContext(ctx) })
	return one
}

// changed tells all items, without a lock held: they may drop the object.
func (o *watched) changed() {
	o.mu.Lock()
	told := make([]func(), 0, len(o.notify))
	for _, notify := range o.notify {
		told = append(told, notify)
	}
	o.mu.Unlock()
	for _, notify := range told {
		notify()
	}
}

// object returns the watched object; known is false while the watch is not in step yet.
func (o *watched) object(k key) (object any, exists, known bool) {
	if !o.synced() {
		return nil, false, false
	}
	object, exists, err := o.store.GetByKey(k.namespace + "/" + k.name)
	return object, exists, err == nil
}
