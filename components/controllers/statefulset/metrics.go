package statefulset

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
)

// setMetrics tell how many pods of sets are out of service, and may be, when they are scraped.
type setMetrics struct{ sets appslisters.StatefulSetLister }

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("statefulset_controller_statefulset_"+name, help,
		[]string{"statefulset_namespace", "statefulset_name", "pod_management_policy"}, nil)
}

func allowedDesc() *prometheus.Desc {
	return desc("max_unavailable", "Pods of a StatefulSet that may be unavailable during an update.")
}

func unavailableDesc() *prometheus.Desc {
	return desc("unavailable_replicas", "Pods of a StatefulSet that are missing or not available.")
}

// Describe implements prometheus.Collector.
func (setMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- allowedDesc()
	out <- unavailableDesc()
}

// Collect implements prometheus.Collector.
func (m setMetrics) Collect(out chan<- prometheus.Metric) {
	sets, _ := m.sets.List(labels.Everything()) // a lister of a cache does not fail
	for _, set := range sets {
		values := []string{set.Namespace, set.Name, string(set.Spec.PodManagementPolicy)}
		missing := max(replicas(set)-int(set.Status.AvailableReplicas), 0)
		out <- prometheus.MustNewConstMetric(allowedDesc(), prometheus.GaugeValue,
			float64(unavailableLimit(set)), values...)
		out <- prometheus.MustNewConstMetric(unavailableDesc(), prometheus.GaugeValue, float64(missing), values...)
	}
}
