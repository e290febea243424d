package measures

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CacheStats is the state of one resource's cache.
type CacheStats struct {
	Resource schema.GroupResource
	Objects  int
	Bytes    int64 // in the store
	Revision int64 // of the last change
	Events   int64 // received since the start
	Capacity int   // events that are remembered at most
}

// Caches shows what the caches hold at the moment when somebody asks. It is a prometheus.Collector.
type Caches struct {
	// List returns the state of every cache.
	List func() []CacheStats
	// NoCounts leaves the numbers of objects out.
	NoCounts bool
}

var cacheLabels = []string{"group", "resource"}

// The metrics of caches.
var (
	resourceObjects  = prometheus.NewDesc("apiserver_resource_objects", "Stored objects, by resource.", cacheLabels, nil)
	storageObjects   = prometheus.NewDesc("apiserver_storage_objects", "Stored objects, by resource with its group.", []string{"resource"}, nil)
	resourceSize     = prometheus.NewDesc("apiserver_resource_size_estimate_bytes", "Bytes that stored objects take, by resource.", cacheLabels, nil)
	cacheRevision    = prometheus.NewDesc("apiserver_watch_cache_resource_version", "Last change that the cache knows of, by resource.", cacheLabels, nil)
	cacheEvents      = prometheus.NewDesc("apiserver_watch_cache_events_received_total", "Changes that the cache has seen, by resource.", cacheLabels, nil)
	cacheCapacity    = prometheus.NewDesc("watch_cache_capacity", "Changes that the cache remembers at most, by resource.", cacheLabels, nil)
	storageSizeBytes = prometheus.NewDesc("apiserver_storage_size_bytes", "Bytes of the store's database, by member.", []string{"storage_cluster_id"}, nil)
)

// Describe implements prometheus.Collector.
func (c *Caches) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{resourceObjects, storageObjects, resourceSize, cacheRevision, cacheEvents, cacheCapacity} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Caches) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, s := range c.List() {
		group, resource := s.Resource.Group, s.Resource.Resource
		if !c.NoCounts {
			gauge(resourceObjects, float64(s.Objects), group, resource)
			gauge(storageObjects, float64(s.Objects), joined(s.Resource))
			gauge(resourceSize, float64(s.Bytes), group, resource)
		}
		gauge(cacheRevision, float64(s.Revision), group, resource)
		gauge(cacheCapacity, float64(s.Capacity), group, resource)
		ch <- prometheus.MustNewConstMetric(cacheEvents, prometheus.CounterValue, float64(s.Events), group, resource)
	}
}

// Sizes shows how large the store was when it was asked last. It is a prometheus.Collector.
type Sizes struct {
	last atomic.Pointer[map[string]int64]
}

// Set replaces what is shown, by the name of the member.
func (s *Sizes) Set(sizes map[string]int64) { s.last.Store(&sizes) }

// Describe implements prometheus.Collector.
func (s *Sizes) Describe(ch chan<- *prometheus.Desc) { ch <- storageSizeBytes }

// Collect implements prometheus.Collector.
func (s *Sizes) Collect(ch chan<- prometheus.Metric) {
	sizes := s.last.Load()
	if sizes == nil {
		return
	}
	for member, size := range *sizes {
		ch <- prometheus.MustNewConstMetric(storageSizeBytes, prometheus.GaugeValue, float64(size), member)
	}
}
