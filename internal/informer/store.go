package informer

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// store implements cache.ReflectorStore: it keeps the indexer and tells the handlers.
type store struct{ *Informer }

// Add implements cache.ReflectorStore, as do the methods below.
func (s store) Add(obj any) error { return s.Update(obj) }

func (s store) Update(obj any) error {
	obj, err := s.transformed(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(obj)
}

func (s store) Delete(obj any) error {
	obj, err := s.transformed(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists, err := s.indexer.Get(obj); err != nil || !exists {
		return err
	}
	if err := s.indexer.Delete(obj); err != nil {
		return err
	}
	s.distribute(func(to cache.ResourceEventHandler) { to.OnDelete(obj) })
	return nil
}

// Replace tells of objects that are not in the list as of such whose deletion was missed.
func (s store) Replace(list []any, _ string) error {
	objects, keys := make([]any, len(list)), sets.New[string]()
	for i := range list {
		obj, err := s.transformed(list[i])
		if err != nil {
			return err
		}
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		objects[i] = obj
		keys.Insert(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.indexer.ListKeys() {
		if keys.Has(key) {
			continue
		}
		last, _, err := s.indexer.GetByKey(key)
		if err != nil {
			return err
		}
		gone := cache.DeletedFinalStateUnknown{Key: key, Obj: last}
		if err := s.indexer.Delete(gone); err != nil {
			return err
		}
		s.distribute(func(to cache.ResourceEventHandler) { to.OnDelete(gone) })
	}
	for _, obj := range objects {
		if err := s.put(obj); err != nil {
			return err
		}
	}
	if !s.HasSynced() {
		close(s.synced)
		for h := range s.handlers {
			h.enqueue(h.sync)
		}
	}
	return nil
}

func (s store) Resync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, obj := range s.indexer.List() {
		s.distribute(func(to cache.ResourceEventHandler) { to.OnUpdate(obj, obj) })
	}
	return nil
}

// put stores an object and tells of it; it is called with the lock held.
func (s store) put(obj any) error {
	old, exists, err := s.indexer.Get(obj)
	if err != nil {
		return err
	}
	if err := s.indexer.Update(obj); err != nil {
		return err
	}
	if exists {
		s.distribute(func(to cache.ResourceEventHandler) { to.OnUpdate(old, obj) })
		return nil
	}
	initial := !s.HasSynced()
	s.distribute(func(to cache.ResourceEventHandler) { to.OnAdd(obj, initial) })
	return nil
}

func (s store) transformed(obj any) (any, error) {
	if s.transform == nil {
		return obj, nil
	}
	return s.transform(obj) // it is set before the reflector starts
}
