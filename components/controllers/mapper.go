package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"
)

// renewEvery bounds how often the API server is asked anew what it serves.
const renewEvery = 10 * time.Second

// mapper knows what the API server serves, and asks it again about what it doesn't know: custom resources come at any time.
type mapper struct {
	meta.ResettableRESTMapper
	clock clock.PassiveClock
	mu    sync.Mutex
	asked time.Time
}

func newMapper(resources discovery.DiscoveryInterface, clock clock.PassiveClock) *mapper {
	return &mapper{
		ResettableRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(resources)), clock: clock, asked: clock.Now(),
	}
}

// renew forgets what is known, unless that is young, and tells whether it did.
func (m *mapper) renew() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if now.Sub(m.asked) < renewEvery {
		return false
	}
	m.asked = now
	m.Reset()
	return true
}

// again asks, and asks once more if what is known has nothing and could be old.
func again[T any](m *mapper, ask func() (T, error)) (T, error) {
	out, err := ask()
	if meta.IsNoMatchError(err) && m.renew() {
		return ask()
	}
	return out, err
}

// KindFor implements meta.RESTMapper.
func (m *mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return again(m, func() (schema.GroupVersionKind, error) { return m.ResettableRESTMapper.KindFor(resource) })
}

// KindsFor implements meta.RESTMapper.
func (m *mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return again(m, func() ([]schema.GroupVersionKind, error) { return m.ResettableRESTMapper.KindsFor(resource) })
}

// ResourceFor implements meta.RESTMapper.
func (m *mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return again(m, func() (schema.GroupVersionResource, error) { return m.ResettableRESTMapper.ResourceFor(input) })
}

// ResourcesFor implements meta.RESTMapper.
func (m *mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return again(m, func() ([]schema.GroupVersionResource, error) { return m.ResettableRESTMapper.ResourcesFor(input) })
}

// RESTMapping implements meta.RESTMapper.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return again(m, func() (*meta.RESTMapping, error) { return m.ResettableRESTMapper.RESTMapping(kind, versions...) })
}

// RESTMappings implements meta.RESTMapper.
func (m *mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return again(m, func() ([]*meta.RESTMapping, error) { return m.ResettableRESTMapper.RESTMappings(kind, versions...) })
}
