package controllers

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
)

// upstreamMetrics are metrics of upstream's manager that say the same here. Those that are left out need parts that are
// not there (caches of client-go), or a library's global state.
const upstreamMetrics = `
attachdetach_controller_forced_detaches
attachdetach_controller_total_volumes
cronjob_controller_job_creation_skew_duration_seconds
daemonset_controller_stale_sync_skips_total
endpoint_slice_controller_changes
endpoint_slice_controller_desired_endpoint_slices
endpoint_slice_controller_endpoints_added_per_sync
endpoint_slice_controller_endpoints_desired
endpoint_slice_controller_endpoints_removed_per_sync
endpoint_slice_controller_endpointslices_changed_per_sync
endpoint_slice_controller_num_endpoint_slices
endpoint_slice_controller_services_count_by_traffic_distribution
endpoint_slice_controller_syncs
endpoint_slice_mirroring_controller_addresses_skipped_per_sync
endpoint_slice_mirroring_controller_changes
endpoint_slice_mirroring_controller_desired_endpoint_slices
endpoint_slice_mirroring_controller_endpoints_added_per_sync
endpoint_slice_mirroring_controller_endpoints_desired
endpoint_slice_mirroring_controller_endpoints_removed_per_sync
endpoint_slice_mirroring_controller_endpoints_sync_duration
endpoint_slice_mirroring_controller_endpoints_updated_per_sync
endpoint_slice_mirroring_controller_num_endpoint_slices
ephemeral_volume_controller_create_failures_total
ephemeral_volume_controller_create_total
garbagecollector_controller_resources_sync_error_total
horizontal_pod_autoscaler_controller_desired_replicas
horizontal_pod_autoscaler_controller_metric_computation_duration_seconds
horizontal_pod_autoscaler_controller_metric_computation_total
horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers
horizontal_pod_autoscaler_controller_reconciliation_duration_seconds
horizontal_pod_autoscaler_controller_reconciliations_total
job_controller_job_pods_creation_total
job_controller_job_pods_finished_total
job_controller_job_sync_duration_seconds
job_controller_job_syncs_total
job_controller_jobs_by_external_controller_total
job_controller_jobs_finished_total
job_controller_stale_sync_skips_total
job_controller_terminated_pods_tracking_finalizer_total
kubernetes_build_info
kubernetes_feature_enabled
leader_election_master_status
node_collector_evictions_total
node_collector_unhealthy_nodes_in_zone
node_collector_update_all_nodes_health_duration_seconds
node_collector_update_node_health_duration_seconds
node_collector_zone_health
node_collector_zone_size
node_ipam_controller_cidrset_allocation_tries_per_request
node_ipam_controller_cidrset_cidrs_allocations_total
node_ipam_controller_cidrset_cidrs_releases_total
node_ipam_controller_cidrset_usage_cidrs
node_ipam_controller_cirdset_max_cidrs
pod_gc_collector_force_delete_pod_errors_total
pod_gc_collector_force_delete_pods_total
pv_collector_bound_pv_count
pv_collector_bound_pvc_count
pv_collector_total_pv_count
pv_collector_unbound_pv_count
pv_collector_unbound_pvc_count
replicaset_controller_sorting_deletion_age_ratio
replicaset_controller_stale_sync_skips_total
resourceclaim_controller_creates_total
resourceclaim_controller_resource_claims
rest_client_request_duration_seconds
rest_client_request_size_bytes
rest_client_requests_total
rest_client_response_size_bytes
root_ca_cert_publisher_sync_duration_seconds
root_ca_cert_publisher_sync_total
running_managed_controllers
statefulset_controller_stale_sync_skips_total
statefulset_controller_statefulset_max_unavailable
statefulset_controller_statefulset_unavailable_replicas
storage_count_attachable_volumes_in_use
storage_operation_duration_seconds
taint_eviction_controller_pod_deletion_duration_seconds
taint_eviction_controller_pod_deletions_total
ttl_after_finished_controller_job_deletion_duration_seconds
volume_operation_total_seconds
workqueue_adds_total
workqueue_depth
workqueue_longest_running_processor_seconds
workqueue_queue_duration_seconds
workqueue_retries_total
workqueue_unfinished_work_seconds
workqueue_work_duration_seconds
`

// namesOf takes down what is registered, and passes it on.
type namesOf struct {
	*prometheus.Registry
	descriptions []string
}

func (n *namesOf) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc, 100)
	c.Describe(described)
	close(described)
	for d := range described {
		n.descriptions = append(n.descriptions, d.String())
	}
	return n.Registry.Register(c)
}

func (n *namesOf) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := n.Register(c); err != nil {
			panic(err)
		}
	}
}

// TestMetricsOfUpstream: all metrics of the list are registered by a manager that runs everything.
func TestMetricsOfUpstream(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var all []string
		for _, e := range list() {
			all = append(all, `{"name":"`+e.needs[strings.LastIndex(e.needs, "/")+1:]+`"}`)
		}
		_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","resources":[` + strings.Join(all, ",") + "]}"))
	}))
	defer server.Close()
	registry := &namesOf{Registry: prometheus.NewRegistry()}
	c := DefaultConfig()
	c.Client, c.Clock = &rest.Config{Host: server.URL}, clock.RealClock{}
	c.AllocateNodeCIDRs, c.ClusterCIDR = true, "10.244.0.0/16"
	c.FeatureGates = map[string]bool{maxUnavailable: true}
	c.RootCAFile = filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(c.RootCAFile, []byte("ca"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &Manager{config: c, registry: registry, requests: newRequests(registry, clock.RealClock{})}
	if err := m.tellOfItself(); err != nil {
		t.Fatal(err)
	}
	h, err := m.host(t.Context(), c.Client)
	if err != nil {
		t.Fatal(err)
	}
	defer h.events.Shutdown()
	entries, err := c.enabled()
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]runner.Controller{}
	for _, e := range entries {
		controller, err := h.controller(t.Context(), e)
		if err != nil {
			t.Errorf("%s: %v", e.name, err)
		} else if controller != nil {
			made[e.name] = controller
		}
	}
	dismiss(made)
	for _, name := range strings.Fields(upstreamMetrics) {
		if !slices.ContainsFunc(registry.descriptions, func(d string) bool {
			return strings.Contains(d, `fqName: "`+name+`"`)
		}) {
			t.Errorf("%s is not registered", name)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestRequestsAreCounted by the code of the answer, and by the error of none.
func TestRequestsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRequests(registry, clock.RealClock{})
	server := httptest.NewServer(http.NotFoundHandler())
	client := &http.Client{Transport: r.measure(server.Client().Transport)}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	server.Close()
	if _, err := client.Get(server.URL); err == nil {
		t.Fatal("a server that is gone answers")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		if family.GetName() != "rest_client_requests_total" {
			continue
		}
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				if label.GetName() == "code" {
					got = append(got, label.GetValue())
				}
			}
		}
	}
	slices.Sort(got)
	if strings.Join(got, " ") != "404 <error>" {
		t.Errorf("counted %v", got)
	}
}
