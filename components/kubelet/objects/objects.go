// Package objects holds the config maps and secrets that a node's pods refer to. Each object is watched alone, by
// name, from the first pod that refers to it to the last: that is all a node may read.
package objects

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
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
	users   map[types.UID]bool
	watched *watched
}

// Store holds objects. It is safe for concurrent use.
type Store struct {
	client  kubernetes.Interface
	watches *Watches
	changed func([]types.UID)

	mu     sync.Mutex
	items  map[key]*item
	byPod  map[types.UID]map[key]bool
	closed bool
}

// New makes an empty store, which reads objects by client while watches don't have them yet; changed is called with the
// pods that refer to an object that changed. Watches end with the pods that refer to them; call Close afterwards.
func New(client kubernetes.Interface, watches *Watches, changed func([]types.UID)) *Store {
	return &Store{client: client, watches: watches, changed: changed, items: map[key]*item{},
		byPod: map[types.UID]map[key]bool{}}
}

// Close forgets all pods.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for uid := range s.byPod {
		s.forget(uid)
	}
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
			it = &item{users: map[types.UID]bool{}}
			it.watched = s.watches.add(k, it, func() { s.notify(k) })
			s.items[k] = it
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
	s.forget(uid)
}

// forget is called with the lock held.
func (s *Store) forget(uid types.UID) {
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
		s.watches.drop(k, it)
		delete(s.items, k)
	}
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
	if it == nil {
		return nil, false, false
	}
	return it.watched.object(k)
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
