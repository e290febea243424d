package server

import (
	"maps"
	"sync"
	"sync/atomic"
)

// memo keeps what is costly to find. It is for few keys that are asked for often: a reader takes no lock, a new key
// costs a copy.
type memo[K comparable, V any] struct {
	now atomic.Pointer[map[K]V]
	mu  sync.Mutex // of callers that add
}

// get returns what find has found for the key, now or before.
func (m *memo[K, V]) get(key K, find func(K) V) V {
	if known := m.now.Load(); known != nil {
		if v, ok := (*known)[key]; ok {
			return v
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[K]V{}
	if known := m.now.Load(); known != nil {
		if v, ok := (*known)[key]; ok {
			return v
		}
		next = maps.Clone(*known)
	}
	v := find(key)
	next[key] = v
	m.now.Store(&next)
	return v
}
