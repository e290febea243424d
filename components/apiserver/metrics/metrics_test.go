package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestStoreCountsFailures: that a key isn't as expected is none.
func TestStoreCountsFailures(t *testing.T) {
	registry, over := prometheus.NewRegistry(), memory.New(nil)
	s := NewCalls(registry, func(string) (schema.GroupResource, bool) {
		return schema.GroupResource{Group: "apps", Resource: "deployments"}, true
	}).Of(over)
	revision, err := s.Create(t.Context(), "/a", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.Create(t.Context(), "/a", nil, 0)
	_, _ = s.Update(t.Context(), "/a", nil, revision+1, 0)
	_, _ = s.Get(t.Context(), "/b")
	if n := testutil.CollectAndCount(s.failures); n != 0 {
		t.Errorf("%d failures", n)
	}
	if err := over.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Update(t.Context(), "/a", nil, revision, 0)
	const want = `
# HELP etcd_request_errors_total Calls of the store that failed.
# TYPE etcd_request_errors_total counter
etcd_request_errors_total{group="apps",operation="update",resource="deployments"} 1
# HELP etcd_requests_total Calls of the store.
# TYPE etcd_requests_total counter
etcd_requests_total{group="apps",operation="create",resource="deployments"} 2
etcd_requests_total{group="apps",operation="get",resource="deployments"} 1
etcd_requests_total{group="apps",operation="update",resource="deployments"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "etcd_requests_total",
		"etcd_request_errors_total"); err != nil {
		t.Error(err)
	}
}

func TestAdmissionTellsWhatWasRejected(t *testing.T) {
	a := NewAdmission(prometheus.NewRegistry())
	took := a.Plugin("X", "admit")
	took(time.Second, admission.Delete, false)
	took(time.Second, admission.Delete, true)
	for _, rejected := range []string{"true", "false"} {
		h, err := a.plugins.GetMetricWithLabelValues("X", "admit", "DELETE", rejected)
		if err != nil {
			t.Fatal(err)
		}
		if n := testutil.CollectAndCount(h.(prometheus.Collector)); n != 1 {
			t.Errorf("rejected=%s: %d", rejected, n)
		}
	}
}
