package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
)

// CacheStats is the state of one resource's cache.
type CacheStats struct {
	Resource schema.GroupResource
	Objects  int
	Bytes    int64 // in the store
	Revision int64 // at which the cache is known to be what the store was
	Events   int64 // received since the start
	Capacity int   // events that are remembered at most
	Direct   bool  // where upstream has no cache, so that nothing is shown of it
	Counts   cache.Counts
}

// Caches exposes what the caches hold at the moment of the scrape. It is a prometheus.Collector.
type Caches struct {
	// List returns the state of every cache.
	List func() []CacheStats
	// NoCounts leaves the numbers of objects out.
	NoCounts bool
}

var (
	cacheLabels = []string{"group", "resource"}
	indexLabels = []string{"group", "resource", "index"}
)

// revisionRange is how far revisions are shown: what is larger would lose digits.
const revisionRange = 1_000_000_000_000_000

// The metrics of caches.
var (
	resourceObjects = prometheus.NewDesc("apiserver_resource_objects", "Stored objects, by resource.",
		cacheLabels, nil)
	storageObjects = prometheus.NewDesc("apiserver_storage_objects",
		"Stored objects, by resource with its group.", []string{"resource"}, nil)
	resourceSize = prometheus.NewDesc("apiserver_resource_size_estimate_bytes",
		"Bytes that stored objects take, by resource.", cacheLabels, nil)
	cacheRevision = prometheus.NewDesc("apiserver_watch_cache_resource_version",
		"Revision at which the cache is known to be what the store was, modulo 10^15, by resource.", cacheLabels, nil)
	cacheEvents = prometheus.NewDesc("apiserver_watch_cache_events_received_total",
		"Changes that the cache has seen, by resource.", cacheLabels, nil)
	cacheLoads = prometheus.NewDesc("apiserver_watch_cache_initializations_total",
		"How often the cache was filled, by resource.", cacheLabels, nil)
	cacheDispatched = prometheus.NewDesc("apiserver_watch_cache_events_dispatched_total",
		"Changes that the cache showed to those who watch, by resource.", cacheLabels, nil)
	cacheConsistent = prometheus.NewDesc("apiserver_watch_cache_consistent_read_total",
		"Reads that waited for the store's revision, by resource.",
		[]string{"group", "resource", "success", "fallback"}, nil)
	cacheTerminated = prometheus.NewDesc("apiserver_terminated_watchers_total",
		"Watches that were ended as too much was left lying, by resource.", cacheLabels, nil)
	storageUndecoded = prometheus.NewDesc("apiserver_storage_decode_errors_total",
		"Tries to decode what is stored that failed, by resource.", cacheLabels, nil)
	cacheInitial = prometheus.NewDesc("apiserver_init_events_total",
		"Events that told watches what there was when they began, by resource.", cacheLabels, nil)
	cacheLists = prometheus.NewDesc("apiserver_cache_list_total",
		"Lists, by resource and by the index that was used.", indexLabels, nil)
	cacheFetched = prometheus.NewDesc("apiserver_cache_list_fetched_objects_total",
		"Objects that lists looked at, by resource and index.", indexLabels, nil)
	cacheReturned = prometheus.NewDesc("apiserver_cache_list_returned_objects_total",
		"Objects that lists returned, by resource.", cacheLabels, nil)
	storageEvents = prometheus.NewDesc("apiserver_storage_events_received_total",
		"Changes that came from the store, by resource.", cacheLabels, nil)
	storageLists = prometheus.NewDesc("apiserver_storage_list_total", "Lists of the store, by resource.",
		cacheLabels, nil)
	storageFetched = prometheus.NewDesc("apiserver_storage_list_fetched_objects_total",
		"Objects that lists of the store read, by resource.", cacheLabels, nil)
	storageEvaluated = prometheus.NewDesc("apiserver_storage_list_evaluated_objects_total",
		"Objects that lists of the store looked at, by resource.", cacheLabels, nil)
	storageReturned = prometheus.NewDesc("apiserver_storage_list_returned_objects_total",
		"Objects that lists of the store returned, by resource.", cacheLabels, nil)
	cacheCapacity = prometheus.NewDesc("watch_cache_capacity",
		"Changes that the cache remembers at most, by resource.", cacheLabels, nil)
	cacheWaits = prometheus.NewDesc("apiserver_watch_cache_read_wait_seconds",
		"Time that reads waited until the cache was as new as they asked, by resource.", cacheLabels, nil)
	storageBookmarks = prometheus.NewDesc("etcd_bookmark_total",
		"How often the store told how far it is, by resource.", cacheLabels, nil)
	storageBookmarkCounts = prometheus.NewDesc("etcd_bookmark_counts",
		"(Deprecated since 1.36.0) How often the store told how far it is, by resource.", cacheLabels, nil)
	storageChecks = prometheus.NewDesc("apiserver_storage_consistency_checks_total",
		"Comparisons of the cache with the store, by resource.", []string{"group", "resource", "status"}, nil)
	storageSizeBytes = prometheus.NewDesc("apiserver_storage_size_bytes", "Bytes of the database of a store.",
		[]string{"storage_cluster_id"}, nil)
	storageTotalSize = prometheus.NewDesc("apiserver_storage_db_total_size_in_bytes",
		"(Deprecated since 1.28.0) Bytes of the database of a member of a store; -1 if it doesn't tell.",
		[]string{"endpoint"}, nil)
)

// Describe implements prometheus.Collector.
func (c *Caches) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{resourceObjects, storageObjects, resourceSize, cacheRevision, cacheEvents,
		cacheCapacity,
		cacheLoads, cacheDispatched, cacheConsistent, cacheInitial, cacheLists, cacheFetched, cacheReturned,
		storageEvents, storageLists, storageFetched, storageEvaluated, storageReturned, cacheWaits, storageBookmarks,
		storageBookmarkCounts, storageChecks,
		cacheTerminated, storageUndecoded} {
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
		if s.Direct {
			c.store(ch, &s)
			continue
		}
		gauge(cacheRevision, float64(s.Revision%revisionRange), group, resource)
		gauge(cacheCapacity, float64(s.Capacity), group, resource)
		if s.Counts.Bookmarks > 0 {
			gauge(storageBookmarkCounts, float64(s.Counts.Bookmarks), group, resource)
		}
		c.store(ch, &s)
		c.count(ch, &s)
	}
}

// counting shows what is more than nothing.
func counting(ch chan<- prometheus.Metric, s *CacheStats) func(d *prometheus.Desc, value int64, labels ...string) {
	return func(d *prometheus.Desc, value int64, labels ...string) {
		if value > 0 {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value),
				append([]string{s.Resource.Group, s.Resource.Resource}, labels...)...)
		}
	}
}

// store shows what the store was asked for a cache, and what came from there.
func (c *Caches) store(ch chan<- prometheus.Metric, s *CacheStats) {
	counter, n := counting(ch, s), s.Counts
	counter(storageEvents, s.Events)
	counter(storageLists, n.Loads)
	if n.Loads > 0 {
		for _, d := range []*prometheus.Desc{storageFetched, storageEvaluated, storageReturned} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Loaded), s.Resource.Group,
				s.Resource.Resource)
		}
	}
	counter(storageUndecoded, n.Undecodable)
}

// count shows what a cache has done.
func (c *Caches) count(ch chan<- prometheus.Metric, s *CacheStats) {
	counter, n := counting(ch, s), s.Counts
	counter(cacheEvents, s.Events)
	counter(cacheDispatched, s.Events)
	counter(cacheLoads, n.Loads)
	counter(cacheConsistent, n.Consistent, "true", "false")
	counter(cacheConsistent, n.Failed, "false", "false")
	counter(cacheConsistent, n.FellBack, "true", "true")
	counter(cacheConsistent, n.FellFailing, "false", "true")
	counter(cacheTerminated, n.Behind)
	counter(storageChecks, n.Same, "success")
	counter(storageChecks, n.Different, "failure")
	counter(storageChecks, n.Unchecked, "error")
	counter(cacheInitial, n.Initial)
	counter(storageBookmarks, n.Bookmarks)
	if n.Waits.Count > 0 {
		buckets := map[float64]uint64{}
		for i, bound := range cache.WaitBounds {
			buckets[bound.Seconds()] = n.Waits.Up[i]
		}
		ch <- prometheus.MustNewConstHistogram(cacheWaits, n.Waits.Count, n.Waits.Sum.Seconds(), buckets,
			s.Resource.Group, s.Resource.Resource)
	}
	var returned, lists int64
	for index, l := range n.Lists {
		counter(cacheLists, l.Total, index)
		ch <- prometheus.MustNewConstMetric(cacheFetched, prometheus.CounterValue, float64(l.Fetched), s.Resource.Group,
			s.Resource.Resource, index)
		lists, returned = lists+l.Total, returned+l.Returned
	}
	if lists > 0 {
		ch <- prometheus.MustNewConstMetric(cacheReturned, prometheus.CounterValue, float64(returned), s.Resource.Group,
			s.Resource.Resource)
	}
}

// Sizes shows how large the stores were when they were asked last. It is a prometheus.Collector.
type Sizes struct {
	last atomic.Pointer[sizes]
}

type sizes struct{ stores, members map[string]int64 }

// Set replaces what is shown: by the names of the stores, and by the addresses of their members.
func (s *Sizes) Set(stores, members map[string]int64) { s.last.Store(&sizes{stores, members}) }

// Describe implements prometheus.Collector.
func (s *Sizes) Describe(ch chan<- *prometheus.Desc) {
	ch <- storageSizeBytes
	ch <- storageTotalSize
}

// Collect implements prometheus.Collector.
func (s *Sizes) Collect(ch chan<- prometheus.Metric) {
	last := s.last.Load()
	if last == nil {
		return
	}
	for store, size := range last.stores {
		ch <- prometheus.MustNewConstMetric(storageSizeBytes, prometheus.GaugeValue, float64(size), store)
	}
	for member, size := range last.members {
		ch <- prometheus.MustNewConstMetric(storageTotalSize, prometheus.GaugeValue, float64(size), member)
	}
}
