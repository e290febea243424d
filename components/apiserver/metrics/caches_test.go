package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
)

// TestCaches shows what a cache has done, and which revision it has reached.
func TestCaches(t *testing.T) {
	c := &Caches{List: func() []CacheStats {
		return []CacheStats{{
			Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Revision: 7*revisionRange + 5,
			Counts: cache.Counts{Consistent: 5, Failed: 1, FellBack: 2, FellFailing: 3, Behind: 4, Undecodable: 6},
		}}
	}}
	const want = `
# HELP apiserver_storage_decode_errors_total Tries to decode what is stored that failed, by resource.
# TYPE apiserver_storage_decode_errors_total counter
apiserver_storage_decode_errors_total{group="apps",resource="deployments"} 6
# HELP apiserver_terminated_watchers_total Watches that were ended as too much was left lying, by resource.
# TYPE apiserver_terminated_watchers_total counter
apiserver_terminated_watchers_total{group="apps",resource="deployments"} 4
# HELP apiserver_watch_cache_consistent_read_total Reads that waited for the store's revision, by resource.
# TYPE apiserver_watch_cache_consistent_read_total counter
apiserver_watch_cache_consistent_read_total{fallback="false",group="apps",resource="deployments",success="false"} 1
apiserver_watch_cache_consistent_read_total{fallback="false",group="apps",resource="deployments",success="true"} 5
apiserver_watch_cache_consistent_read_total{fallback="true",group="apps",resource="deployments",success="false"} 3
apiserver_watch_cache_consistent_read_total{fallback="true",group="apps",resource="deployments",success="true"} 2
# HELP apiserver_watch_cache_resource_version Revision at which the cache is known to be what the store was, modulo 10^15, by resource.
# TYPE apiserver_watch_cache_resource_version gauge
apiserver_watch_cache_resource_version{group="apps",resource="deployments"} 5
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "apiserver_storage_decode_errors_total",
		"apiserver_terminated_watchers_total",
		"apiserver_watch_cache_consistent_read_total", "apiserver_watch_cache_resource_version"); err != nil {
		t.Error(err)
	}
}

// TestUncached: of what upstream keeps no cache of, only that is shown which is about the store; and nothing that never
// happened.
func TestUncached(t *testing.T) {
	events := schema.GroupResource{Resource: "events"}
	for _, tt := range []struct {
		stats CacheStats
		want  string
	}{
		{CacheStats{Resource: events, Direct: true, Events: 2,
			Counts: cache.Counts{Loads: 1, Loaded: 3, Bookmarks: 4, Consistent: 5, Same: 6, Initial: 7}},
			"apiserver_resource_objects apiserver_resource_size_estimate_bytes apiserver_storage_events_received_total " +
				"apiserver_storage_list_evaluated_objects_total " +
				"apiserver_storage_list_fetched_objects_total apiserver_storage_list_returned_objects_total " +
				"apiserver_storage_list_total apiserver_storage_objects"},
		{CacheStats{Resource: events, Counts: cache.Counts{Bookmarks: 4}},
			"apiserver_resource_objects apiserver_resource_size_estimate_bytes apiserver_storage_objects " +
				"apiserver_watch_cache_resource_version " +
				"etcd_bookmark_counts etcd_bookmark_total watch_cache_capacity"},
	} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(&Caches{List: func() []CacheStats { return []CacheStats{tt.stats} }})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range families {
			names = append(names, f.GetName())
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("shown\n%s\nwant\n%s", got, tt.want)
		}
	}
}
