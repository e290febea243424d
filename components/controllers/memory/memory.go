// Package memory holds what a controller remembers of an object's past that no API object tells. A controller that
// takes over knows nothing of it.
package memory

import (
	"maps"
	"sync"
)

// Memory remembers entries, by the key of the object that they belong to. The zero value is ready. It is safe for
// concurrent use.
type Memory[K comparable, V any] struct {
	mu    sync.Mutex
	byKey map[string]map[K]V
}

// Of returns a copy of an object's entries.
func (m *Memory[K, V]) Of(key string) map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.byKey[key])
}

// Add adds entries, or replaces them, and drops those of before that are outdated; a nil function drops none. Without
// entries it does nothing.
func (m *Memory[K, V]) Add(key string, more map[K]V, outdated func(K, V) bool) {
	if len(more) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[string]map[K]V{}
	}
	if m.byKey[key] == nil {
		m.byKey[key] = map[K]V{}
	}
	if outdated != nil {
		maps.DeleteFunc(m.byKey[key], outdated)
	}
	maps.Copy(m.byKey[key], more)
}

// Forget drops all entries of an object.
func (m *Memory[K, V]) Forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}
