package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// usage of a running container.
type usage struct {
	pod       *v1.Pod
	container string
	started   metav1.Time
	runtime.Usage
}

// usages measures all running containers, a few at a time.
func (s *Server) usages(ctx context.Context) []usage {
	meter, able := s.Engine.(runtime.Statistics)
	if !able {
		return nil
	}
	var mu sync.Mutex
	var all []usage
	var group sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, pod := range s.Pods.List() {
		for _, cs := range pod.Status.ContainerStatuses {
			if cs.State.Running == nil {
				continue
			}
			group.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				measured, err := meter.Stats(ctx, bareID(cs.ContainerID))
				if err != nil {
					return // it ended meanwhile
				}
				mu.Lock()
				all = append(all, usage{pod, cs.Name, cs.State.Running.StartedAt, measured})
				mu.Unlock()
			})
		}
	}
	group.Wait()
	return all
}

func (u *usage) cpu() *stats.CPUStats {
	nanoseconds := uint64(u.CPU)
	return &stats.CPUStats{Time: metav1.NewTime(u.At), UsageCoreNanoSeconds: &nanoseconds}
}

func (u *usage) memory() *stats.MemoryStats {
	used, working := u.MemoryBytes, u.WorkingSetBytes
	return &stats.MemoryStats{Time: metav1.NewTime(u.At), UsageBytes: &used, WorkingSetBytes: &working}
}

// summary answers /stats/summary (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	answer := stats.Summary{Node: stats.NodeStats{NodeName: s.NodeName}}
	index := map[*v1.Pod]int{}
	for _, u := range s.usages(r.Context()) {
		i, known := index[u.pod]
		if !known {
			i = len(answer.Pods)
			index[u.pod] = i
			pod := stats.PodStats{PodRef: stats.PodReference{Name: u.pod.Name, Namespace: u.pod.Namespace, UID: string(u.pod.UID)}}
			if u.pod.Status.StartTime != nil {
				pod.StartTime = *u.pod.Status.StartTime
			}
			answer.Pods = append(answer.Pods, pod)
		}
		answer.Pods[i].Containers = append(answer.Pods[i].Containers, stats.ContainerStats{
			Name: u.container, StartTime: u.started, CPU: u.cpu(), Memory: u.memory(),
		})
	}
	writeJSON(w, answer)
}

// resourceMetrics answers /metrics/resource, which metrics-server reads.
func (s *Server) resourceMetrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	all := s.usages(r.Context())
	write := func(name, kind, help string, value func(*usage) float64) {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		for i := range all {
			u := &all[i]
			fmt.Fprintf(w, "%s{container=%q,namespace=%q,pod=%q} %g %d\n", name, u.container, u.pod.Namespace, u.pod.Name, value(u), u.At.UnixMilli())
		}
	}
	write("container_cpu_usage_seconds_total", "counter", "CPU time used by the container, in seconds", func(u *usage) float64 { return u.CPU.Seconds() })
	write("container_memory_working_set_bytes", "gauge", "Working set of the container, in bytes", func(u *usage) float64 { return float64(u.WorkingSetBytes) })
	write("container_start_time_seconds", "gauge", "Start of the container, in seconds since the epoch", func(u *usage) float64 { return float64(u.started.Unix()) })
}
