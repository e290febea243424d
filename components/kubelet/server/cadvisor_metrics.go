package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// cadvisorMetrics answers /metrics/cadvisor: the core of what cAdvisor tells of containers, with its names and labels
// (https://github.com/google/cadvisor/blob/master/docs/storage/prometheus.md).
func (s *Server) cadvisorMetrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	all, complete := s.measureWhole(r.Context(), true)
	families := &families{}
	for i := range all {
		families.container(&all[i])
	}
	if machine, err := s.machineUsage(r.Context()); err != nil {
		complete = false
	} else if machine != nil {
		families.usage(`container="",id="/",image="",name="",namespace="",pod=""`, machine)
	}
	if info, err := s.Engine.Info(r.Context()); err == nil {
		families.add("machine_cpu_cores", "gauge", "Number of logical CPU cores.", sample{value: float64(info.CPUs)})
		families.add("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.",
			sample{value: float64(info.MemoryBytes)})
	} else {
		complete = false
	}
	failed := 0.0
	if !complete {
		failed = 1
	}
	families.add("container_scrape_error", "gauge", "1 if there was an error while getting container metrics, 0 otherwise",
		sample{value: failed})
	families.write(w)
}

// family is a metric with all its samples, which have to be told together.
type family struct {
	name, kind, help string
	samples          []sample
}

type families struct{ list []*family }

func (f *families) add(name, kind, help string, one sample) {
	i := slices.IndexFunc(f.list, func(known *family) bool { return known.name == name })
	if i < 0 {
		i = len(f.list)
		f.list = append(f.list, &family{name: name, kind: kind, help: help})
	}
	f.list[i].samples = append(f.list[i].samples, one)
}

func (f *families) write(w http.ResponseWriter) {
	slices.SortFunc(f.list, func(a, b *family) int { return cmp.Compare(a.name, b.name) })
	for _, one := range f.list {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", one.name, one.help, one.name, one.kind)
		for _, sample := range one.samples {
			sample.write(w, one.name)
		}
	}
}

// container adds what is told of a container or sandbox.
func (f *families) container(m *measured) {
	labels := fmt.Sprintf("container=%q,id=%q,image=%q,name=%q,namespace=%q,pod=%q", m.container, m.cgroup(), m.image,
		m.id, m.pod.Namespace, m.pod.Name)
	f.usage(labels, &m.Usage)
	gauge := func(name, help string, value float64) {
		f.add(name, "gauge", help, sample{labels: "{" + labels + "}", value: value, at: m.At})
	}
	gauge("container_start_time_seconds", "Start time of the container since unix epoch in seconds.",
		seconds(m.started.Time))
	gauge("container_last_seen", "Last time a container was seen by the exporter", seconds(m.At))
	gauge("container_spec_cpu_shares", "CPU share of the container.", float64(m.resources.CPUShares))
	gauge("container_spec_cpu_period", "CPU period of the container.", float64(m.resources.CPUPeriod))
	if m.resources.CPUQuota > 0 {
		gauge("container_spec_cpu_quota", "CPU quota of the container.", float64(m.resources.CPUQuota))
	}
	gauge("container_spec_memory_limit_bytes", "Memory limit for the container.", float64(m.resources.MemoryBytes))
	if m.swapLimit != nil {
		gauge("container_spec_memory_swap_limit_bytes", "Memory swap limit for the container.", float64(*m.swapLimit))
	}
	if m.disk != nil {
		at := fmt.Sprintf("{container=%q,device=%q,id=%q,image=%q,name=%q,namespace=%q,pod=%q}", m.container, "", m.cgroup(),
			m.image, m.id, m.pod.Namespace, m.pod.Name)
		f.add("container_fs_usage_bytes", "gauge", "Number of bytes that are consumed by the container on this filesystem.",
			sample{labels: at, value: float64(m.disk.Written + m.disk.Logs), at: m.At})
		f.add("container_fs_limit_bytes", "gauge",
			"Number of bytes that can be consumed by the container on this filesystem.",
			sample{labels: at, value: float64(m.capacity), at: m.At})
	}
	for i := range m.Networks {
		f.network(labels, &m.Networks[i], m.At)
	}
}

// usage adds what a container or the machine uses.
func (f *families) usage(labels string, u *runtime.Usage) {
	with := func(more string) string { return "{" + labels + more + "}" }
	counter := func(name, help, labels string, value float64) {
		f.add(name, "counter", help, sample{labels: labels, value: value, at: u.At})
	}
	gauge := func(name, help string, value uint64) {
		f.add(name, "gauge", help, sample{labels: with(""), value: float64(value), at: u.At})
	}
	container, rest, _ := strings.Cut(labels, ",")
	counter("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.",
		"{"+container+`,cpu="total",`+rest+"}", u.CPU.Seconds())
	counter("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.", with(""),
		u.CPUUser.Seconds())
	counter("container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.", with(""),
		u.CPUSystem.Seconds())
	gauge("container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it "+
		"was accessed", u.MemoryBytes)
	gauge("container_memory_working_set_bytes", "Current working set in bytes.", u.WorkingSetBytes)
	gauge("container_memory_rss", "Size of RSS in bytes.", u.RSSBytes)
	gauge("container_memory_cache", "Number of bytes of page cache memory.", u.CacheBytes)
	gauge("container_memory_swap", "Container swap usage in bytes.", u.SwapBytes)
	gauge("container_processes", "Number of processes running inside the container.", u.Processes)
	before, after, _ := strings.Cut(labels, `,id=`)
	for kind, n := range map[string]uint64{"pgfault": u.PageFaults, "pgmajfault": u.MajorPageFaults} {
		counter("container_memory_failures_total", "Cumulative count of memory allocation failures.",
			fmt.Sprintf("{%s,failure_type=%q,id=%s,scope=%q}", before, kind, after, "container"), float64(n))
	}
}

func (f *families) network(labels string, n *runtime.NetworkUsage, at time.Time) {
	for _, one := range []struct {
		name, help string
		value      uint64
	}{
		{"receive_bytes", "Cumulative count of bytes received", n.RxBytes},
		{"receive_packets", "Cumulative count of packets received", n.RxPackets},
		{"receive_errors", "Cumulative count of errors encountered while receiving", n.RxErrors},
		{"receive_packets_dropped", "Cumulative count of packets dropped while receiving", n.RxDropped},
		{"transmit_bytes", "Cumulative count of bytes transmitted", n.TxBytes},
		{"transmit_packets", "Cumulative count of packets transmitted", n.TxPackets},
		{"transmit_errors", "Cumulative count of errors encountered while transmitting", n.TxErrors},
		{"transmit_packets_dropped", "Cumulative count of packets dropped while transmitting", n.TxDropped},
	} {
		before, after, _ := strings.Cut(labels, ",name=")
		f.add("container_network_"+one.name+"_total", "counter", one.help,
			sample{labels: fmt.Sprintf("{%s,interface=%q,name=%s}", before, n.Name, after), value: float64(one.value), at: at})
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// measured is a running container, or sandbox, and all that it uses.
type measured struct {
	usage
	id, image string
	sandbox   bool
	resources runtime.Resources
	disk      *runtime.DiskUsage // nil if it was not measured
	capacity  int64              // of the disk, in bytes
}

// cgroup is the path that the container is told under.
func (m *measured) cgroup() string { return "/kubepods/pod" + string(m.pod.UID) + "/" + m.id }

// sandboxName is the value of the label "container" of sandboxes.
const sandboxName = "POD"

// measureWhole measures all running containers and sandboxes, and tells whether all could be measured that still run.
// They are ordered by namespace, pod and container.
func (s *Server) measureWhole(ctx context.Context, disks bool) ([]measured, bool) {
	observed, err := s.Engine.Pods(ctx)
	if err != nil {
		return nil, false
	}
	var work []measured
	for _, pod := range s.Pods.List() {
		i := slices.IndexFunc(observed, func(p runtime.Pod) bool { return p.UID == pod.UID })
		if i >= 0 {
			work = append(work, running(pod, &observed[i])...)
		}
	}
	var capacity int64
	if s.Disk != nil {
		if fs, err := s.Disk(); err == nil {
			capacity = fs.Capacity
		}
	}
	all, complete := s.measureAll(ctx, work, disks)
	for i := range all {
		all[i].capacity = capacity
	}
	slices.SortFunc(all, func(a, b measured) int {
		return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name),
			cmp.Compare(a.container, b.container))
	})
	return all, complete
}

// running are the containers and the sandbox of a pod that run.
func running(pod *v1.Pod, observed *runtime.Pod) []measured {
	var all []measured
	if sandbox := observed.Sandbox(); sandbox != nil && sandbox.State == runtime.Running {
		one := measured{id: sandbox.ID, sandbox: true}
		one.pod, one.container, one.started.Time = pod, sandboxName, sandbox.Created
		all = append(all, one)
	}
	for i := range observed.Containers {
		if c := &observed.Containers[i]; c.State == runtime.Running {
			one := measured{id: c.ID, image: c.Image, resources: c.Resources}
			one.pod, one.container, one.started.Time = pod, c.Name, c.Started
			all = append(all, one)
		}
	}
	return all
}
