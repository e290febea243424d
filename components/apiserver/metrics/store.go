package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/storage"
)

// Calls measures the calls of stores.
type Calls struct {
	resource func(key string) (schema.GroupResource, bool)

	duration *prometheus.HistogramVec
	requests *prometheus.CounterVec
	failures *prometheus.CounterVec
}

// Store measures the calls of another store. Watches, progress and revisions are left alone: they belong to no
// resource.
type Store struct {
	storage.Store
	*Calls
}

// NewCalls registers the metrics. resource tells to what a key belongs; what belongs to none is not measured.
func NewCalls(registry prometheus.Registerer, resource func(key string) (schema.GroupResource, bool)) *Calls {
	labels := []string{"operation", "group", "resource"}
	s := &Calls{
		resource: resource,
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "etcd_request_duration_seconds", Help: "Time that calls of the store took.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20,
				30, 45, 60},
		}, labels),
		requests: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "etcd_requests_total", Help: "Calls of the store."}, labels),
		failures: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "etcd_request_errors_total", Help: "Calls of the store that failed."}, labels),
	}
	registry.MustRegister(s.duration, s.requests, s.failures)
	return s
}

// Of returns a store over another one.
func (s *Calls) Of(over storage.Store) *Store { return &Store{over, s} }

// took notes a call that began at start. That a key is not as expected is an answer, and no failure.
func (s *Calls) took(start time.Time, operation, key string, err error) {
	r, ok := s.resource(key)
	if !ok {
		return
	}
	s.duration.WithLabelValues(operation, r.Group, r.Resource).Observe(time.Since(start).Seconds())
	s.requests.WithLabelValues(operation, r.Group, r.Resource).Inc()
	var conflict *storage.ConflictError
	if err != nil && !errors.As(err, &conflict) && !errors.Is(err, storage.ErrNotFound) &&
		!errors.Is(err, storage.ErrExists) {
		s.failures.WithLabelValues(operation, r.Group, r.Resource).Inc()
	}
}

// Get implements storage.Store.
func (s *Store) Get(ctx context.Context, key string) (storage.KeyValue, error) {
	start := time.Now()
	kv, err := s.Store.Get(ctx, key)
	s.took(start, "get", key, err)
	return kv, err
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, r storage.Range) (storage.Page, error) {
	start := time.Now()
	page, err := s.Store.List(ctx, r)
	s.took(start, "list", r.Prefix, err)
	return page, err
}

// Create implements storage.Store.
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	start := time.Now()
	revision, err := s.Store.Create(ctx, key, value, ttl)
	s.took(start, "create", key, err)
	return revision, err
}

// Update implements storage.Store.
func (s *Store) Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64,
	error) {
	start := time.Now()
	revision, err := s.Store.Update(ctx, key, value, expected, ttl)
	s.took(start, "update", key, err)
	return revision, err
}

// Delete implements storage.Store.
func (s *Store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	start := time.Now()
	revision, err := s.Store.Delete(ctx, key, expected)
	s.took(start, "delete", key, err)
	return revision, err
}
