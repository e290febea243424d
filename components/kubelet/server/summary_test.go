package server

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/metrics"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// whole is an engine with a pod of a sandbox and a container, all of which it measures.
type whole struct {
	*hollow.Engine
	cpu time.Duration
	at  time.Time
}

func (*whole) Pods(context.Context) ([]runtime.Pod, error) {
	return []runtime.Pod{
		{UID: "other", Containers: []runtime.Container{{ID: "x", Name: "x", State: runtime.Running}}},
		{UID: "uid", Sandboxes: []runtime.Sandbox{{ID: "box", State: runtime.Running, Created: time.Unix(5, 0)}},
			Containers: []runtime.Container{
				{ID: "now", Name: "c", Image: "image:1", State: runtime.Running, Started: time.Unix(7, 0),
					Resources: runtime.Resources{CPUShares: 102, CPUQuota: 5000, CPUPeriod: 100000, MemoryBytes: 1000}},
				{ID: "before", Name: "c", State: runtime.Exited},
			}},
	}, nil
}

func (e *whole) Info(context.Context) (runtime.Info, error) {
	return runtime.Info{CPUs: 3, MemoryBytes: 5000}, nil
}

func (e *whole) Stats(_ context.Context, id string) (runtime.Usage, error) {
	u := runtime.Usage{At: e.at, CPU: e.cpu, CPUUser: time.Second, CPUSystem: 2 * time.Second, MemoryBytes: 400,
		WorkingSetBytes: 300, RSSBytes: 200, CacheBytes: 100, SwapBytes: 50, PageFaults: 7, MajorPageFaults: 3, Processes: 2}
	if id == "box" {
		u.Networks = []runtime.NetworkUsage{{Name: "eth0", RxBytes: 11, TxBytes: 12}}
	}
	return u, nil
}

func (e *whole) Disk(context.Context, string) (runtime.DiskUsage, error) {
	return runtime.DiskUsage{Written: 30, Logs: 4}, nil
}

// measuredVolumes are those of every pod.
type measuredVolumes []volumes.Measured

func (m measuredVolumes) Measure(context.Context, *v1.Pod) []volumes.Measured { return m }

func wholeServer() (*Server, *whole, *testingclock.FakePassiveClock) {
	e := &whole{Engine: &hollow.Engine{}, cpu: 3 * time.Second, at: measuredAt}
	c := testingclock.NewFakePassiveClock(measuredAt)
	pod := runningPod()
	limit := resource.MustParse("1Gi")
	pod.Spec.Volumes = []v1.Volume{
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit}}},
		{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}},
	}
	started := metav1.NewTime(time.Unix(4, 0))
	pod.Status.StartTime = &started
	pids, running, swap := int64(32768), int64(9), uint64(60)
	return New(Config{
		Pods: podList{pod}, Engine: e, Clock: c, NodeName: "node", Guard: open(), Metrics: metrics.New("node", nil),
		Volumes: measuredVolumes{{Name: "scratch", Usage: volumes.Usage{Used: 100}},
			{Name: "data", Claim: "claim", Usage: volumes.Usage{Used: 1000, Capacity: 2000}}},
		Machine: func(context.Context) (runtime.Usage, error) {
			return runtime.Usage{CPU: time.Minute, WorkingSetBytes: 2000, At: e.at}, nil
		},
		Disk: func() (volumes.Usage, error) { return volumes.Usage{Capacity: 9000, Available: 8000, Used: 1000}, nil },
		System: func(time.Time) System {
			return System{Started: time.Unix(1, 0), MemoryBytes: 5000, MaxPID: &pids, Processes: &running, SwapBytes: &swap,
				SwapAvailable: &swap, Networks: []runtime.NetworkUsage{{Name: "cbr0"}, {Name: "eth0", RxBytes: 99}},
				Containers: map[string]runtime.Usage{"kubelet": {CPU: time.Second}}}
		},
	}), e, c
}

func ask(t *testing.T, s *Server, path string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	if answer.Code != 200 {
		t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

func summaryOf(t *testing.T, s *Server, path string) (stats.Summary, string) {
	t.Helper()
	var got stats.Summary
	body := ask(t, s, path)
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	return got, body
}

func TestSummary(t *testing.T) {
	s, e, c := wholeServer()
	summaryOf(t, s, "/stats/summary")
	e.cpu, e.at = e.cpu+5*time.Second, e.at.Add(10*time.Second)
	c.SetTime(e.at)
	got, body := summaryOf(t, s, "/stats/summary")
	if len(got.Pods) != 1 || len(got.Pods[0].Containers) != 1 {
		t.Fatalf("%s", body)
	}
	node, pod, container := got.Node, got.Pods[0], got.Pods[0].Containers[0]
	var system []string
	for _, one := range node.SystemContainers {
		system = append(system, one.Name)
	}
	if strings.Join(system, ",") != "kubelet,pods" || node.StartTime.Unix() != 1 || pod.StartTime.Unix() != 4 {
		t.Errorf("system containers %v, node %+v", system, node)
	}
	for what, pair := range map[string][2]uint64{
		"available memory":       {*node.Memory.AvailableBytes, 3000},
		"network of the node":    {*node.Network.RxBytes, 99},
		"interfaces":             {uint64(len(node.Network.Interfaces)), 2},
		"space of the node":      {*node.Fs.AvailableBytes, 8000},
		"space for images":       {*node.Runtime.ImageFs.CapacityBytes, 9000},
		"space for containers":   {*node.Runtime.ContainerFs.UsedBytes, 1000},
		"process IDs":            {uint64(*node.Rlimit.MaxPID), 32768},
		"processes":              {uint64(*node.Rlimit.NumOfRunningProcesses), 9},
		"swap of the node":       {*node.Swap.SwapUsageBytes, 60},
		"CPU of the pod":         {*pod.CPU.UsageCoreNanoSeconds, 16e9},
		"present CPU":            {*pod.CPU.UsageNanoCores, 1e9},
		"present CPU, one":       {*container.CPU.UsageNanoCores, 5e8},
		"memory of the pod":      {*pod.Memory.WorkingSetBytes, 600},
		"network of the pod":     {*pod.Network.TxBytes, 12},
		"processes of the pod":   {*pod.ProcessStats.ProcessCount, 4},
		"swap of the pod":        {*pod.Swap.SwapUsageBytes, 100},
		"ephemeral storage":      {*pod.EphemeralStorage.UsedBytes, 2*34 + 100},
		"volumes":                {uint64(len(pod.VolumeStats)), 2},
		"memory that is left":    {*container.Memory.AvailableBytes, 700},
		"RSS":                    {*container.Memory.RSSBytes, 200},
		"major page faults":      {*container.Memory.MajorPageFaults, 3},
		"files of the container": {*container.Rootfs.UsedBytes, 30},
		"logs of the container":  {*container.Logs.UsedBytes, 4},
		"swap of the container":  {*container.Swap.SwapUsageBytes, 50},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %d, want %d", what, pair[0], pair[1])
		}
	}
	if ref := pod.VolumeStats[1].PVCRef; ref == nil || ref.Name != "claim" || ref.Namespace != "ns" {
		t.Errorf("claim %v", ref)
	}
	brief, body := summaryOf(t, s, "/stats/summary?only_cpu_and_memory=true")
	if brief.Node.Fs != nil || brief.Pods[0].VolumeStats != nil || brief.Pods[0].Containers[0].Rootfs != nil ||
		brief.Pods[0].CPU == nil {
		t.Errorf("only CPU and memory: %s", body)
	}
}

func TestCadvisorMetrics(t *testing.T) {
	s, _, _ := wholeServer()
	body := ask(t, s, "/metrics/cadvisor")
	labels := `container="c",%sid="/kubepods/poduid/now",image="image:1",%sname="now",namespace="ns",pod="p"`
	with := func(first, second string) string {
		return "{" + strings.Replace(strings.Replace(labels, "%s", first, 1), "%s", second, 1) + "}"
	}
	plain := with("", "")
	for _, line := range []string{
		"container_cpu_usage_seconds_total" + with(`cpu="total",`, "") + " 3",
		"container_cpu_user_seconds_total" + plain + " 1", "container_cpu_system_seconds_total" + plain + " 2",
		"container_memory_usage_bytes" + plain + " 400", "container_memory_working_set_bytes" + plain + " 300",
		"container_memory_rss" + plain + " 200", "container_memory_cache" + plain + " 100",
		"container_memory_swap" + plain + " 50", "container_start_time_seconds" + plain + " 7",
		"container_memory_failures_total" + strings.TrimSuffix(with(`failure_type="pgfault",`, ""), "}") +
			`,scope="container"} 7`,
		"container_spec_cpu_shares" + plain + " 102", "container_spec_cpu_quota" + plain + " 5000",
		"container_spec_cpu_period" + plain + " 100000", "container_spec_memory_limit_bytes" + plain + " 1000",
		`container_fs_usage_bytes{container="c",device="",id="/kubepods/poduid/now",image="image:1",name="now",` +
			`namespace="ns",pod="p"} 34`,
		`container_fs_limit_bytes{container="c",device="",id="/kubepods/poduid/now",image="image:1",name="now",` +
			`namespace="ns",pod="p"} 9000`,
		`container_network_receive_bytes_total{container="POD",id="/kubepods/poduid/box",image="",interface="eth0",` +
			`name="box",namespace="ns",pod="p"} 11`,
		`container_cpu_usage_seconds_total{container="",cpu="total",id="/",image="",name="",namespace="",pod=""} 60`,
		"machine_cpu_cores 3", "machine_memory_bytes 5000", "container_scrape_error 0",
	} {
		if !strings.Contains(body, "\n"+line) {
			t.Errorf("no line %s in\n%s", line, body)
		}
	}
	if strings.Contains(body, `name="before"`) || strings.Count(body, "# TYPE container_memory_rss ") != 1 {
		t.Errorf("a container that ended, or a metric in pieces:\n%s", body)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	s, _, _ := wholeServer()
	ask(t, s, "/pods")
	body := ask(t, s, "/metrics")
	for _, line := range []string{
		`kubelet_http_requests_total{long_running="false",method="GET",path="pods",server_type="readwrite"} 1`,
		`kubelet_http_inflight_requests{long_running="false",method="GET",path="metrics",server_type="readwrite"} 1`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, body)
		}
	}
	ask(t, s, "/metrics/probes")
	for path, want := range map[string]string{"/": "other", "/metrics/cadvisor": "metrics/cadvisor", "/metrics/x": "other",
		"/exec/ns/p/c": "exec", "/stats/summary": "stats", "/nothing": "other"} {
		if got := rootPath(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
