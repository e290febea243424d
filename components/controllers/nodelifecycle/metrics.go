package nodelifecycle

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/controllers/nodes"
	"quintet.dev/quintet/components/controllers/runner"
)

// metrics are those of upstream's controller.
type metrics struct {
	health, size, unhealthy *prometheus.GaugeVec
	evictions               *prometheus.CounterVec
	each, all               *prometheus.HistogramVec
}

func newMetrics(env runner.Env) metrics {
	const subsystem = "node_collector"
	return metrics{
		health:    env.Gauge(subsystem, "zone_health", "Percentage of healthy nodes of a zone.", "zone"),
		size:      env.Gauge(subsystem, "zone_size", "Nodes of a zone.", "zone"),
		unhealthy: env.Gauge(subsystem, "unhealthy_nodes_in_zone", "Nodes of a zone that are not ready.", "zone"),
		evictions: env.Counter(subsystem, "evictions_total", "Nodes whose pods were evicted.", "zone"),
		each: env.Histogram(subsystem, "update_node_health_duration_seconds", "How long one node took.",
			prometheus.ExponentialBuckets(0.001, 4, 8)),
		all: env.Histogram(subsystem, "update_all_nodes_health_duration_seconds", "How long all nodes took.",
			prometheus.ExponentialBuckets(0.01, 4, 8)),
	}
}

// zoneLabel is what upstream calls the zone of a node: empty for one without zone and region.
func zoneLabel(node *v1.Node) string {
	region, zone := node.Labels[v1.LabelTopologyRegion], node.Labels[v1.LabelTopologyZone]
	if region == "" && zone == "" {
		return ""
	}
	return region + ":\x00:" + zone
}

// survey tells the state of all zones; a zone without nodes is told of no more.
func (m metrics) survey(all []*v1.Node) {
	size, lost := map[string]float64{}, map[string]float64{}
	for _, node := range all {
		zone := zoneLabel(node)
		size[zone]++
		if nodes.Ready(node) != v1.ConditionTrue {
			lost[zone]++
		}
	}
	m.health.Reset()
	m.size.Reset()
	m.unhealthy.Reset()
	for zone, n := range size {
		m.size.WithLabelValues(zone).Set(n)
		m.unhealthy.WithLabelValues(zone).Set(lost[zone])
		m.health.WithLabelValues(zone).Set(100 * (n - lost[zone]) / n)
		m.evictions.WithLabelValues(zone)
	}
}
