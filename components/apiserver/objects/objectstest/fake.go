// Package objectstest is an objects.Store in memory, for tests.
package objectstest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

type key struct {
	resource        schema.GroupResource
	namespace, name string
}

// Store keeps what tests put into it. The zero value is empty and ready.
type Store struct {
	mu      sync.Mutex
	objects map[key]api.Object
	order   []key
	feeds   map[schema.GroupResource][]func(old, new api.Object)
	// Writes counts creates and changes.
	Writes int
}

// Put stores an object, replacing what was there.
func (s *Store) Put(resource schema.GroupResource, obj api.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(resource, obj)
}

func (s *Store) put(resource schema.GroupResource, obj api.Object) {
	if s.objects == nil {
		s.objects = map[key]api.Object{}
	}
	k := key{resource, obj.GetNamespace(), obj.GetName()}
	old := s.objects[k]
	if old == nil {
		s.order = append(s.order, k)
	}
	s.objects[k] = obj
	for _, changed := range s.feeds[resource] {
		changed(old, obj)
	}
}

// Remove takes an object out.
func (s *Store) Remove(resource schema.GroupResource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{resource, namespace, name}
	old := s.objects[k]
	if old == nil {
		return
	}
	s.take(k)
	for _, changed := range s.feeds[resource] {
		changed(old, nil)
	}
}

func (s *Store) take(k key) {
	delete(s.objects, k)
	s.order = slices.DeleteFunc(s.order, func(other key) bool { return other == k })
}

// Get implements objects.Reader.
func (s *Store) Get(_ context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj := s.objects[key{resource, namespace, name}]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

// Live implements objects.Reader.
func (s *Store) Live(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error) {
	return s.Get(ctx, resource, namespace, name)
}

// List implements objects.Reader, in the order in which objects came.
func (s *Store) List(_ context.Context, resource schema.GroupResource, namespace string) ([]api.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []api.Object
	for _, k := range s.order {
		if obj := s.objects[k]; obj != nil && k.resource == resource && (namespace == "" || k.namespace == namespace) {
			list = append(list, obj)
		}
	}
	return list, nil
}

// Feed implements objects.Feeder.
func (s *Store) Feed(ctx context.Context, resource schema.GroupResource, changed func(old, new api.Object),
	synced func()) error {
	s.mu.Lock()
	for _, k := range s.order {
		if obj := s.objects[k]; obj != nil && k.resource == resource {
			changed(nil, obj)
		}
	}
	if s.feeds == nil {
		s.feeds = map[schema.GroupResource][]func(old, new api.Object){}
	}
	s.feeds[resource] = append(s.feeds[resource], changed)
	s.mu.Unlock()
	synced()
	<-ctx.Done()
	return nil
}

// Create implements objects.Writer.
func (s *Store) Create(_ context.Context, resource schema.GroupResource, obj api.Object) (api.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key{resource, obj.GetNamespace(), obj.GetName()}] != nil {
		return nil, apierrors.NewAlreadyExists(resource, obj.GetName())
	}
	s.Writes++
	obj = obj.DeepCopyObject().(api.Object)
	obj.SetUID(types.UID(fmt.Sprintf("uid-%d", s.Writes)))
	s.put(resource, obj)
	return obj, nil
}

// Update implements objects.Writer.
func (s *Store) Update(_ context.Context, resource schema.GroupResource, namespace, name string,
	mutate func(api.Object) (api.Object, error)) (api.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[key{resource, namespace, name}]
	if old == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	obj, err := mutate(old.DeepCopyObject().(api.Object))
	if err != nil {
		return nil, err
	}
	s.Writes++
	s.put(resource, obj)
	return obj, nil
}

// UpdateStatus implements objects.Writer; fields are not managed here.
func (s *Store) UpdateStatus(ctx context.Context, resource schema.GroupResource, namespace, name string,
	mutate func(api.Object) (api.Object, error)) (api.Object, error) {
	return s.Update(ctx, resource, namespace, name, mutate)
}

// ApplyStatus implements objects.Writer; fields are not managed here.
func (s *Store) ApplyStatus(ctx context.Context, resource schema.GroupResource, namespace, name, _ string,
	config any) (api.Object, error) {
	patch, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	return s.Update(ctx, resource, namespace, name, func(obj api.Object) (api.Object, error) {
		return obj, json.Unmarshal(patch, obj)
	})
}

// Delete implements objects.Writer.
func (s *Store) Delete(ctx context.Context, resource schema.GroupResource, namespace, name string,
	uid types.UID) error {
	obj, err := s.Get(ctx, resource, namespace, name)
	if err != nil {
		return err
	}
	if uid != "" && obj.GetUID() != uid {
		return apierrors.NewConflict(resource, name, fmt.Errorf("the UID is %s", obj.GetUID()))
	}
	s.Remove(resource, namespace, name)
	return nil
}
