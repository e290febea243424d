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

// renewEvery is the minimum interval between two discoveries of the served resources.
const renewEvery = 10 * time.Second

// mapper maps the served resources, and repeats discovery for unknown ones: custom resources are added at any
// time.
type mapper struct {
	meta.ResettableRESTMapper
	clock clock.PassiveClock
	mu    sync.Mutex
	asked time.Time
}

func newMapper(resources discovery.DiscoveryInterface, clock clock.PassiveClock) *mapper {
	return &mapper{
		ResettableRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(resources)),
		clock:                clock, asked: clock.Now(),
	}
}

// renew invalidates the cached discovery, unless it is recent, and reports whether it did.
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

// again calls ask, and once more after an invalidation if there is no match in a cache that may be stale.
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
	return again(m, func() ([]*meta.RESTMapping,
		error) {
		return m.ResettableRESTMapper.RESTMappings(kind, versions...)
	})
}
