package server

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
)

// meter measures the same of every container but one.
type meter struct{ *hollow.Engine }

var measuredAt = time.UnixMilli(1_700_000_000_500)

func (meter) Stats(_ context.Context, id string) (runtime.Usage, error) {
	switch id {
	case "gone":
		return runtime.Usage{}, runtime.ErrNotFound
	case "broken":
		return runtime.Usage{}, errors.New("out of order")
	}
	return runtime.Usage{CPU: 1500 * time.Millisecond, WorkingSetBytes: 4096, At: measuredAt}, nil
}

func TestResourceMetrics(t *testing.T) {
	status := func(name, id string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, ContainerID: "hollow://" + id, State: v1.ContainerState{
			Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(1_600_000_000, 0))}}}
	}
	get := func(last string, machineErr error) string {
		pod := runningPod()
		pod.Status.InitContainerStatuses = []v1.ContainerStatus{status("sidecar", "s")}
		pod.Status.ContainerStatuses = []v1.ContainerStatus{status("c", "c"), status("last", last)}
		machine := func(context.Context) (runtime.Usage, error) {
			return runtime.Usage{CPU: 2 * time.Second, WorkingSetBytes: 8192, At: measuredAt}, machineErr
		}
		swap := func(_ *v1.Pod, id string) cgroups.SwapUsage {
			if id == "s" {
				return cgroups.SwapUsage{}
			}
			return cgroups.SwapUsage{Used: ptr.To[uint64](1024), Limit: ptr.To[uint64](2048)}
		}
		s := &Server{Config: Config{Pods: podList{pod}, Engine: meter{}, Machine: machine, Swap: swap}}
		answer := httptest.NewRecorder()
		s.resourceMetrics(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics/resource", nil))
		return answer.Body.String()
	}
	body := get("gone", nil)
	for _, line := range []string{
		`node_cpu_usage_seconds_total 2 1700000000500`, `node_memory_working_set_bytes 8192 1700000000500`,
		`container_cpu_usage_seconds_total{container="c",namespace="ns",pod="p"} 1.5 1700000000500`,
		`container_cpu_usage_seconds_total{container="sidecar",namespace="ns",pod="p"} 1.5 1700000000500`,
		`container_memory_working_set_bytes{container="c",namespace="ns",pod="p"} 4096 1700000000500`,
		`container_start_time_seconds{container="c",namespace="ns",pod="p"} 1.6e+09`,
		`pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 3 1700000000500`,
		`pod_memory_working_set_bytes{namespace="ns",pod="p"} 8192 1700000000500`,
		`container_swap_usage_bytes{container="c",namespace="ns",pod="p"} 1024 1700000000500`,
		`container_swap_limit_bytes{container="c",namespace="ns",pod="p"} 2048 1700000000500`,
		`container_swap_usage_bytes{container="sidecar",namespace="ns",pod="p"} 0 1700000000500`,
		`resource_scrape_error 0`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, body)
		}
	}
	if strings.Contains(body, `container_swap_limit_bytes{container="sidecar"`) {
		t.Errorf("a limit of a container that has none:\n%s", body)
	}
	if strings.Contains(body, `"last"`) {
		t.Errorf("a container that is gone:\n%s", body)
	}
	for name, body := range map[string]string{"container": get("broken", nil), "node": get("c", errors.New("x"))} {
		if !strings.HasSuffix(body, "\nresource_scrape_error 1\n") {
			t.Errorf("%s that can't be measured:\n%s", name, body)
		}
	}
}
