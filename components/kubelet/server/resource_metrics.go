package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// sample is one value of a metric. Without a time, it is of the moment of the scrape.
type sample struct {
	labels string // with their braces; "" for none
	value  float64
	at     time.Time
}

// resourceMetrics answers /metrics/resource, which metrics-server reads
// (https://kubernetes.io/docs/reference/instrumentation/metrics/).
func (s *Server) resourceMetrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	all, complete := s.measure(r.Context())
	slices.SortFunc(all, func(a, b usage) int {
		return strings.Compare(a.labels(), b.labels())
	})
	failed := !complete
	if machine, err := s.machineUsage(r.Context()); err != nil {
		failed = true
	} else if machine != nil {
		writeMetric(w, "node_cpu_usage_seconds_total", "counter", "CPU time that the node used, in core-seconds",
			sample{value: machine.CPU.Seconds(), at: machine.At})
		writeMetric(w, "node_memory_working_set_bytes", "gauge", "Working set of the node, in bytes",
			sample{value: float64(machine.WorkingSetBytes), at: machine.At})
		writeAlphaMetric(w, "node_swap_usage_bytes", "Swap usage of the node, in bytes",
			sample{value: float64(machine.SwapBytes), at: machine.At})
	}
	containers := func(value func(*usage) sample) []sample {
		var samples []sample
		for i := range all {
			one := value(&all[i])
			one.labels = all[i].labels()
			samples = append(samples, one)
		}
		return samples
	}
	writeMetric(w, "container_cpu_usage_seconds_total", "counter", "CPU time that the container used, in core-seconds",
		containers(func(u *usage) sample { return sample{value: u.CPU.Seconds(), at: u.At} })...)
	writeMetric(w, "container_memory_working_set_bytes", "gauge", "Working set of the container, in bytes",
		containers(func(u *usage) sample { return sample{value: float64(u.WorkingSetBytes), at: u.At} })...)
	writeMetric(w, "container_start_time_seconds", "gauge", "Start of the container, in seconds since the epoch",
		containers(func(u *usage) sample { return sample{value: float64(u.started.UnixNano()) / 1e9} })...)
	writeAlphaMetric(w, "container_swap_usage_bytes", "Swap usage of the container, in bytes",
		containers(func(u *usage) sample { return sample{value: float64(u.SwapBytes), at: u.At} })...)
	writeAlphaMetric(w, "container_swap_limit_bytes", "How much of the container may be swapped, in bytes",
		swapLimits(all)...)
	writePodUsage(w, all)
	var scrape sample
	if failed {
		scrape.value = 1
	}
	writeMetric(w, "resource_scrape_error", "gauge", "1 if there was an error while getting container metrics, or else 0",
		scrape)
}

func (s *Server) machineUsage(ctx context.Context) (*runtime.Usage, error) {
	if s.Machine == nil {
		return nil, nil
	}
	used, err := s.Machine(ctx)
	return &used, err
}

// swapLimits are those of the containers that have one.
func swapLimits(all []usage) []sample {
	var samples []sample
	for i := range all {
		if limit := all[i].swapLimit; limit != nil {
			samples = append(samples, sample{labels: all[i].labels(), value: float64(*limit), at: all[i].At})
		}
	}
	return samples
}

func (u *usage) labels() string {
	return fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", u.container, u.pod.Namespace, u.pod.Name)
}

// writePodUsage adds up what the containers of each pod use.
func writePodUsage(w io.Writer, all []usage) {
	var cpu, memory, swap []sample
	index := map[*v1.Pod]int{}
	for i := range all {
		u := &all[i]
		at, known := index[u.pod]
		if !known {
			at = len(cpu)
			index[u.pod] = at
			labels := fmt.Sprintf("{namespace=%q,pod=%q}", u.pod.Namespace, u.pod.Name)
			cpu, memory = append(cpu, sample{labels: labels}), append(memory, sample{labels: labels})
			swap = append(swap, sample{labels: labels})
		}
		for _, sum := range []*sample{&cpu[at], &memory[at], &swap[at]} {
			if sum.at.Before(u.At) {
				sum.at = u.At
			}
		}
		cpu[at].value += u.CPU.Seconds()
		memory[at].value += float64(u.WorkingSetBytes)
		swap[at].value += float64(u.SwapBytes)
	}
	writeMetric(w, "pod_cpu_usage_seconds_total", "counter", "CPU time that the pod used, in core-seconds", cpu...)
	writeMetric(w, "pod_memory_working_set_bytes", "gauge", "Working set of the pod, in bytes", memory...)
	writeAlphaMetric(w, "pod_swap_usage_bytes", "Swap usage of the pod, in bytes", swap...)
}

// writeMetric writes a metric that stays as it is.
func writeMetric(w io.Writer, name, kind, help string, samples ...sample) {
	writeSamples(w, name, kind, "[STABLE] "+help, samples)
}

// writeAlphaMetric writes a gauge that may change.
func writeAlphaMetric(w io.Writer, name, help string, samples ...sample) {
	writeSamples(w, name, "gauge", "[ALPHA] "+help, samples)
}

// writeSamples writes nothing of a metric without samples.
func writeSamples(w io.Writer, name, kind, help string, samples []sample) {
	if len(samples) == 0 {
		return
	}
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	for i := range samples {
		samples[i].write(w, name)
	}
}

func (s *sample) write(w io.Writer, name string) {
	fmt.Fprintf(w, "%s%s %g", name, s.labels, s.value)
	if !s.at.IsZero() {
		fmt.Fprintf(w, " %d", s.at.UnixMilli())
	}
	fmt.Fprintln(w)
}
