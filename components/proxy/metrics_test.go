package proxy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/proxy/compile"
)

// gathered are the values of all metrics, summed up over labels; of a histogram, its sum.
func gathered(t *testing.T, m *metrics) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		values[f.GetName()] = 0
		for _, of := range f.Metric {
			values[f.GetName()] += of.GetCounter().GetValue() + of.GetGauge().GetValue() +
				of.GetHistogram().GetSampleSum()
		}
	}
	return values
}

// The names are upstream's in nftables mode, without those of its process and its client.
func TestMetricNames(t *testing.T) {
	want := []string{
		"kubeproxy_conntrack_reconciler_deleted_entries_total", "kubeproxy_conntrack_reconciler_sync_duration_seconds",
		"kubeproxy_network_programming_duration_seconds", "kubeproxy_proxy_healthz_total",
		"kubeproxy_proxy_livez_total",
		"kubeproxy_sync_full_proxy_rules_duration_seconds", "kubeproxy_sync_partial_proxy_rules_duration_seconds",
		"kubeproxy_sync_proxy_rules_duration_seconds", "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
		"kubeproxy_sync_proxy_rules_endpoint_changes_total", "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
		"kubeproxy_sync_proxy_rules_last_timestamp_seconds",
		"kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
		"kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
		"kubeproxy_sync_proxy_rules_no_local_endpoints_total",
		"kubeproxy_sync_proxy_rules_service_changes_pending", "kubeproxy_sync_proxy_rules_service_changes_total",
		"kubernetes_build_info",
	}
	m := newMetrics()
	m.serve(v1.IPv4Protocol)
	m.healthzTotal.WithLabelValues("200")
	m.livezTotal.WithLabelValues("200")
	var got []string
	for _, name := range slices.Sorted(maps.Keys(gathered(t, m))) {
		if strings.HasPrefix(name, "kube") {
			got = append(got, name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A failed sync counts, one that succeeds brings what waits up to date.
func TestSyncsAreMeasured(t *testing.T) {
	s, kernel, _ := newSyncer(t)
	local := service("a", "10.96.0.7")
	policy := v1.ServiceInternalTrafficPolicyLocal
	local.Spec.InternalTrafficPolicy = &policy
	elsewhere := slice("a", "10.244.1.2")
	serviceEvent(local, false)(s)
	sliceEvent(nil, elsewhere, false)(s)
	value := func(name string) float64 { return gathered(t, s.p.metrics)["kubeproxy_sync_proxy_rules_"+name] }
	if value("service_changes_pending") != 1 || value("endpoint_changes_pending") != 1 {
		t.Error("changes are not pending")
	}
	kernel.fails.Store(true)
	if err := s.write(t.Context()); err == nil || value("nftables_sync_failures_total") != 1 {
		t.Errorf("error %v, %v failures", err, value("nftables_sync_failures_total"))
	}
	kernel.fails.Store(false)
	if err := s.writeFamily(t.Context(), s.families[0], compile.Changes{}); err != nil {
		t.Fatal(err)
	}
	if value("service_changes_pending") != 0 || value("no_local_endpoints_total") != 1 ||
		value("last_timestamp_seconds") != 1e9 {
		t.Errorf("got %v", gathered(t, s.p.metrics))
	}
}
