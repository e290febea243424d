package scheduler

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// resources serves the requests of each pod, as the scheduler counts them, while this instance leads; others answer
// nothing, so that no pod counts twice
// (https://kubernetes.io/docs/concepts/cluster-administration/system-metrics/#kube-scheduler-metrics).
func (s *Scheduler) resources() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(podResources{pods: func() []*v1.Pod {
		var pods []*v1.Pod
		if store := s.pods.Load(); store != nil {
			for _, obj := range (*store).List() {
				pods = append(pods, obj.(*v1.Pod))
			}
		}
		return pods
	}})
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.leads.Load() {
			metrics.ServeHTTP(w, r)
		}
	})
}

// podResources are gauges of every pod, made when they are asked for.
type podResources struct{ pods func() []*v1.Pod }

func (podResources) desc(kind, of string) *prometheus.Desc {
	return prometheus.NewDesc("kube_pod_resource_"+kind,
		of+" of a pod as the scheduler and kubelets count them, in the unit.",
		[]string{"namespace", "pod", "node", "scheduler", "priority", "resource", "unit"}, nil)
}

func (r podResources) requests() *prometheus.Desc { return r.desc("request", "Requests") }
func (r podResources) limits() *prometheus.Desc   { return r.desc("limit", "Limits") }

// Describe implements prometheus.Collector.
func (r podResources) Describe(out chan<- *prometheus.Desc) {
	out <- r.requests()
	out <- r.limits()
}

// Collect implements prometheus.Collector.
func (r podResources) Collect(out chan<- prometheus.Metric) {
	requests, limits := r.requests(), r.limits()
	for _, p := range r.pods() {
		if finished(p) && p.Spec.NodeName != "" {
			continue
		}
		tell(out, requests, p, resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}))
		tell(out, limits, p, resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{}))
	}
}

func tell(out chan<- prometheus.Metric, desc *prometheus.Desc, p *v1.Pod, list v1.ResourceList) {
	priority := ""
	if p.Spec.Priority != nil {
		priority = strconv.Itoa(int(*p.Spec.Priority))
	}
	for name, quantity := range list {
		if !quantity.IsZero() {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, quantity.AsApproximateFloat64(),
				p.Namespace, p.Name, p.Spec.NodeName, p.Spec.SchedulerName, priority, string(name), unit(name))
		}
	}
}

// unit is empty for what is counted in units of its own.
func unit(name v1.ResourceName) string {
	switch {
	case name == v1.ResourceCPU:
		return "cores"
	case name == v1.ResourceMemory, name == v1.ResourceStorage, name == v1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return "bytes"
	case strings.HasPrefix(string(name), v1.ResourceAttachableVolumesPrefix):
		return "integer"
	}
	return ""
}
