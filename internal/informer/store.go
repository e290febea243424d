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
	_, exists, err := s.indexer.Get(obj)
	if err != nil {
		return err
	}
	if err := s.indexer.Delete(obj); err != nil { // of what is not there too: it has a version
		return err
	}
	if !exists {
		return nil
	}
	s.distribute(func(to cache.ResourceEventHandler) { to.OnDelete(obj) })
	return nil
}

// Replace tells of objects that are not in the list as of such whose deletion was missed. Readers find all objects of
// before or all of the list.
func (s store) Replace(list []any, version string) error {
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
	events, err := s.changes(objects, keys)
	if err != nil {
		return err
	}
	if err := s.indexer.Replace(objects, version); err != nil {
		return err
	}
	for _, e := range events {
		s.distribute(e)
	}
	if !s.HasSynced() {
		close(s.synced)
		for h := range s.handlers {
			h.enqueue(h.sync)
		}
	}
	return nil
}

// changes are the events of a list of all objects, which have these keys. It is called with the lock held.
func (s store) changes(objects []any, keys sets.Set[string]) ([]event, error) {
	events := make([]event, 0, len(objects))
	for _, key := range s.indexer.ListKeys() {
		if keys.Has(key) {
			continue
		}
		last, _, err := s.indexer.GetByKey(key)
		if err != nil {
			return nil, err
		}
		gone := cache.DeletedFinalStateUnknown{Key: key, Obj: last}
		events = append(events, func(to cache.ResourceEventHandler) { to.OnDelete(gone) })
	}
	for _, obj := range objects {
		old, exists, err := s.indexer.Get(obj)
		if err != nil {
			return nil, err
		}
		events = append(events, s.change(old, obj, exists))
	}
	return events, nil
}

// change is the event of an object that is new, or that takes the place of an old one.
func (s store) change(old, obj any, exists bool) event {
	if exists {
		return func(to cache.ResourceEventHandler) { to.OnUpdate(old, obj) }
	}
	initial := !s.HasSynced()
	return func(to cache.ResourceEventHandler) { to.OnAdd(obj, initial) }
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s store) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexer.Bookmark(version)
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
	s.distribute(s.change(old, obj, exists))
	return nil
}

func (s store) transformed(obj any) (any, error) {
	if s.transform == nil {
		return obj, nil
	}
	return s.transform(obj) // it is set before the reflector starts
}
