// Package objects holds the config maps and secrets that a node's pods refer to. Each object is watched alone, by
// name, from the first pod that refers to it to the last: that is all a node may read.
package objects

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Kind of an object.
type Kind string

// The kinds that are held.
const (
	ConfigMap Kind = "configmaps"
	Secret    Kind = "secrets"
)

type key struct {
	kind            Kind
	namespace, name string
}

// item is one watched object and the pods that refer to it.
type item struct {
	users  map[types.UID]bool
	store  cache.Store
	synced func() bool
	stop   context.CancelFunc
}

// Store holds objects. It is safe for concurrent use.
type Store struct {
	client  kubernetes.Interface
	changed func([]types.UID)

	mu     sync.Mutex
	ctx    context.Context
	items  map[key]*item
	byPod  map[types.UID]map[key]bool
	wait   sync.WaitGroup
	closed bool
}

// New makes an empty store; changed is called with the pods that refer to an object that changed. Watches end
// with ctx; call Wait afterwards.
func New(ctx context.Context, client kubernetes.Interface, changed func([]types.UID)) *Store {
	return &Store{ctx: ctx, client: client, changed: changed, items: map[key]*item{},
		byPod: map[types.UID]map[key]bool{}}
}

// Wait returns when all watches ended.
func (s *Store) Wait() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wait.Wait()
}

// Register notes what pod refers to and begins to watch it.
func (s *Store) Register(pod *v1.Pod) {
	wanted := references(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for k := range wanted {
		it := s.items[k]
		if it == nil {
			it = s.watch(k)
		}
		it.users[pod.UID] = true
	}
	for k := range s.byPod[pod.UID] {
		if !wanted[k] {
			s.drop(k, pod.UID)
		}
	}
	s.byPod[pod.UID] = wanted
}

// Unregister forgets a pod.
func (s *Store) Unregister(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.byPod[uid] {
		s.drop(k, uid)
	}
	delete(s.byPod, uid)
}

func (s *Store) drop(k key, uid types.UID) {
	it := s.items[k]
	if it == nil {
		return
	}
	delete(it.users, uid)
	if len(it.users) == 0 {
		it.stop()
		delete(s.items, k)
	}
}

// watch is called with the lock held.
func (s *Store) watch(k key) *item {
	ctx, cancel := context.WithCancel(s.ctx)
	it := &item{users: map[types.UID]bool{}, stop: cancel}
	notify := func(any) { s.notify(k) }
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: s.listerWatcher(k),
		ObjectType:    example(k.kind),
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, now any) { notify(now) }, DeleteFunc: notify,
		},
	})
	it.store, it.synced = store, controller.HasSynced
	s.items[k] = it
	s.wait.Go(func() { controller.RunWithContext(ctx) })
	return it
}

func example(kind Kind) runtime.Object {
	if kind == Secret {
		return &v1.Secret{}
	}
	return &v1.ConfigMap{}
}

func (s *Store) listerWatcher(k key) cache.ListerWatcher {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, k.name).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			if k.kind == Secret {
				return s.client.CoreV1().Secrets(k.namespace).List(ctx, options)
			}
			return s.client.CoreV1().ConfigMaps(k.namespace).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			if k.kind == Secret {
				return s.client.CoreV1().Secrets(k.namespace).Watch(ctx, options)
			}
			return s.client.CoreV1().ConfigMaps(k.namespace).Watch(ctx, options)
		},
	}, s.client)
}

func (s *Store) notify(k key) {
	s.mu.Lock()
	var users []types.UID
	if it := s.items[k]; it != nil {
		for uid := range it.users {
			users = append(users, uid)
		}
	}
	s.mu.Unlock()
	if len(users) > 0 {
		s.changed(users)
	}
}

// cached returns the watched object; known is false while the watch is not in step yet, or there is none.
func (s *Store) cached(k key) (object any, exists, known bool) {
	s.mu.Lock()
	it := s.items[k]
	s.mu.Unlock()
	if it == nil || !it.synced() {
		return nil, false, false
	}
	object, exists, err := it.store.GetByKey(k.namespace + "/" + k.name)
	return object, exists, err == nil
}

// ConfigMap returns a config map; it is not to be changed. Errors are the API server's.
func (s *Store) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	object, exists, known := s.cached(key{ConfigMap, namespace, name})
	if known && exists {
		return object.(*v1.ConfigMap), nil
	}
	if known {
		return nil, apierrors.NewNotFound(v1.Resource("configmaps"), name)
	}
	return s.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Secret returns a secret; it is not to be changed. Errors are the API server's.
func (s *Store) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	object, exists, known := s.cached(key{Secret, namespace, name})
	if known && exists {
		return object.(*v1.Secret), nil
	}
	if known {
		return nil, apierrors.NewNotFound(v1.Resource("secrets"), name)
	}
	return s.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}
