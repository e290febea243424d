package scheduler

import (
	"github.com/prometheus/client_golang/prometheus"

	"quintet.dev/quintet/components/scheduler/queue"
)

// state collects from the queue and the snapshot at each scrape, which costs nothing in between.
type state struct {
	queue *queue.Queue
	sizes func() (nodes, pods, assumed int)

	pending, unschedulable, inFlight, cache *prometheus.Desc
}

func newState(q *queue.Queue, sizes func() (nodes, pods, assumed int)) *state {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("scheduler_"+name, help, labels, nil)
	}
	return &state{
		queue: q, sizes: sizes,
		pending: gauge("pending_pods", "[STABLE] Pods that wait, by queue.", "queue"),
		unschedulable: gauge("unschedulable_pods",
			"[BETA] Pods that wait, by each plug-in that refused them.", "plugin",
			"profile"),
		inFlight: gauge("inflight_events",
			"[ALPHA] Pods in flight, as PodPopped, and the events kept for them.", "event"),
		cache: gauge("cache_size", "[ALPHA] Nodes, pods on them, and pods whose binding is not confirmed.", "type"),
	}
}

// Describe implements prometheus.Collector.
func (s *state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.pending, s.unschedulable, s.inFlight, s.cache} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s *state) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	active, backoff, unschedulable, gated := s.queue.Pending()
	for name, count := range map[string]int{"active": active, "backoff": backoff, "unschedulable": unschedulable,
		"gated": gated} {
		gauge(s.pending, count, name)
	}
	for refuser, count := range s.queue.Refusers() {
		gauge(s.unschedulable, count, refuser[1], refuser[0])
	}
	pods, events := s.queue.InFlight()
	gauge(s.inFlight, pods, "PodPopped")
	for event, count := range events {
		gauge(s.inFlight, count, event)
	}
	nodes, placed, assumed := s.sizes()
	gauge(s.cache, nodes, "nodes")
	gauge(s.cache, placed, "pods")
	gauge(s.cache, assumed, "assumed_pods")
}
