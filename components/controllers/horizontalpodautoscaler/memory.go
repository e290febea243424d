package horizontalpodautoscaler

import (
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// memory is what is known of autoscalers between two decisions, by namespace/name. It may be used concurrently.
type memory struct {
	mu        sync.Mutex
	histories map[string]history
	selectors map[string]labels.Selector
}

func newMemory() *memory {
	return &memory{histories: map[string]history{}, selectors: map[string]labels.Selector{}}
}

func (m *memory) history(key string) history {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.histories[key]
}

func (m *memory) keep(key string, h history) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.histories[key] = h
}

func (m *memory) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.histories, key)
	delete(m.selectors, key)
}

// owners records the selector of an autoscaler and returns the sorted keys of all that select any of the pods, which
// are of the autoscaler's namespace.
func (m *memory) owners(key string, selector labels.Selector, pods []*v1.Pod) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.selectors[key] = selector
	namespace, _, _ := strings.Cut(key, "/")
	var found []string
	for other, s := range m.selectors {
		if strings.HasPrefix(other, namespace+"/") &&
			slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return s.Matches(labels.Set(pod.Labels)) }) {
			found = append(found, other)
		}
	}
	slices.Sort(found)
	return found
}
