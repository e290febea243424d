package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// value is the sum or count of the series of a metric that have all of labels ("name=value").
func value(t *testing.T, registry *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	found, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum, known := 0.0, false
	for _, family := range found {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			have := map[string]bool{}
			for _, l := range m.GetLabel() {
				have[l.GetName()+"="+l.GetValue()] = true
			}
			fits := true
			for _, l := range labels {
				fits = fits && have[l]
			}
			if fits {
				known = true
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
	}
	if !known {
		t.Errorf("no %s with %v", name, labels)
	}
	return sum
}

func TestWhatHappensIsCounted(t *testing.T) {
	m := New("n1", nil)
	base := time.Unix(1000, 0)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u",
		CreationTimestamp: metav1.NewTime(base)}}
	m.PodStarted(nil)
	m.PodStarted(errors.New("x"))
	m.ContainerStarted("container", "")
	m.ContainerStarted("container", "ErrImagePull")
	m.Pulled("u", 50<<20, 3*time.Second)
	m.Running(pod, base.Add(time.Second), base.Add(10*time.Second))
	m.WorkerStarted(time.Second)
	m.Synced("create", 2*time.Second)
	m.Relisted(base, base.Add(30*time.Second), base.Add(31*time.Second))
	m.Evicted("memory.available")
	m.Preempted("cpu")
	m.Operation("start_container", time.Second, nil)
	m.Operation("start_container", time.Second, errors.New("x"))
	m.Operation("start_container", time.Second, fmt.Errorf("gave up: %w", context.Canceled))
	m.Cgroup("update", time.Second)
	m.Request("GET", "exec", "readwrite", true)
	m.Request("GET", "pods", "readwrite", false)(2 * time.Second)
	m.ServerRotation.Observe(3600)
	m.ClientRenewErrors.Inc()
	m.Expires("client", func() time.Time { return base.Add(time.Minute) }, func() time.Time { return base })
	m.Probed(pod, "c", "Liveness", "failed", time.Second)
	for _, want := range []struct {
		value  float64
		name   string
		labels []string
	}{
		{1, "kubelet_node_name", []string{"node=n1"}},
		{2, "kubelet_started_pods_total", nil},
		{1, "kubelet_started_pods_errors_total", nil},
		{2, "kubelet_started_containers_total", []string{"container_type=container"}},
		{1, "kubelet_started_containers_errors_total", []string{"container_type=container", "code=ErrImagePull"}},
		{3, "kubelet_image_pull_duration_seconds", []string{"image_size_in_bytes=10MB-100MB"}},
		{9, "kubelet_pod_start_duration_seconds", nil},
		{7, "kubelet_pod_start_sli_duration_seconds", nil},
		{10, "kubelet_pod_start_total_duration_seconds", nil},
		{1, "kubelet_pod_worker_start_duration_seconds", nil},
		{2, "kubelet_pod_worker_duration_seconds", []string{"operation_type=create"}},
		{1, "kubelet_pleg_relist_duration_seconds", nil},
		{30, "kubelet_pleg_relist_interval_seconds", nil},
		{1031, "kubelet_pleg_last_seen_seconds", nil},
		{1, "kubelet_evictions", []string{"eviction_signal=memory.available"}},
		{1, "kubelet_preemptions", []string{"preemption_signal=cpu"}},
		{3, "kubelet_runtime_operations_total", []string{"operation_type=start_container"}},
		{1, "kubelet_runtime_operations_errors_total", []string{"operation_type=start_container"}},
		{3, "kubelet_runtime_operations_duration_seconds", []string{"operation_type=start_container"}},
		{1, "kubelet_cgroup_manager_duration_seconds", []string{"operation_type=update"}},
		{1, "kubelet_http_requests_total", []string{"path=exec", "long_running=true", "server_type=readwrite"}},
		{1, "kubelet_http_inflight_requests", []string{"path=exec"}},
		{0, "kubelet_http_inflight_requests", []string{"path=pods"}},
		{2, "kubelet_http_requests_duration_seconds", []string{"path=pods", "method=GET"}},
		{3600, "kubelet_certificate_manager_server_rotation_seconds", nil},
		{1, "kubelet_certificate_manager_client_expiration_renew_errors", nil},
		{60, "kubelet_certificate_manager_client_ttl_seconds", nil},
		{1, "kubernetes_build_info", nil},
		{1, "kubernetes_feature_enabled", []string{"name=KubeletFineGrainedAuthz"}},
	} {
		if got := value(t, m.Registry, want.name, want.labels...); got != want.value {
			t.Errorf("%s%v: %v, want %v", want.name, want.labels, got, want.value)
		}
	}
	if got := value(t, m.Probes, "prober_probe_total", "probe_type=Liveness", "result=failed", "container=c", "pod=p",
		"namespace=ns", "pod_uid=u"); got != 1 {
		t.Errorf("%v probes", got)
	}
	m.Forget(types.NamespacedName{Namespace: "ns", Name: "p"}, "u")
	if n, err := testutil.GatherAndCount(m.Probes); n != 0 || err != nil {
		t.Errorf("%d series of a pod that is gone, %v", n, err)
	}
}

func TestPodsAreCounted(t *testing.T) {
	now := metav1.Now()
	state := func(running bool) v1.ContainerStatus {
		if running {
			return v1.ContainerStatus{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
		}
		return v1.ContainerStatus{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}
	}
	pods := []*v1.Pod{
		{Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{state(true), state(false)}}},
		{Status: v1.PodStatus{Phase: v1.PodSucceeded, ContainerStatuses: []v1.ContainerStatus{state(false)}}},
		{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: v1.PodStatus{Phase: v1.PodRunning,
			PodIPs: []v1.PodIP{{}}}},
		{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/config.source": "file"}},
			Status: v1.PodStatus{Phase: v1.PodPending}},
	}
	m := New("n", nil)
	m.Count(func() []*v1.Pod { return pods })
	want := `
kubelet_active_pods{static="false"} 2
kubelet_active_pods{static="true"} 1
kubelet_desired_pods{static="false"} 3
kubelet_desired_pods{static="true"} 1
kubelet_mirror_pods 1
kubelet_running_containers{container_state="exited"} 2
kubelet_running_containers{container_state="running"} 1
kubelet_running_pods 2
kubelet_working_pods{config="desired",lifecycle="sync",static="false"} 2
kubelet_working_pods{config="desired",lifecycle="sync",static="true"} 1
kubelet_working_pods{config="desired",lifecycle="terminating",static="false"} 1
kubelet_working_pods{config="desired",lifecycle="terminating",static="true"} 0`
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		series, number, _ := strings.Cut(line, " ")
		name, rest, _ := strings.Cut(series, "{")
		var labels []string
		if rest = strings.TrimSuffix(rest, "}"); rest != "" {
			labels = strings.Split(strings.ReplaceAll(rest, `"`, ""), ",")
		}
		if got := value(t, m.Registry, name, labels...); fmt.Sprint(got) != number {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestSizesOfImages(t *testing.T) {
	for size, want := range map[int64]string{0: "0-10MB", 10 << 20: "10MB-100MB", 1<<30 - 1: "500MB-1GB",
		1 << 30:   "1GB-5GB",
		200 << 30: "GT100GB"} {
		if got := pullSize(size); got != want {
			t.Errorf("%d: %s, want %s", size, got, want)
		}
	}
}

func TestContainerTypes(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "i"}}, Containers: []v1.Container{{Name: "c"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}}}
	for name, want := range map[string]string{"i": "init_container", "c": "container", "e": "ephemeral_container"} {
		if got := ContainerType(pod, name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
