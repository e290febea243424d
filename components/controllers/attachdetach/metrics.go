package attachdetach

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/controllers/runner"
)

// meters measure under the names of upstream's metrics. They are the loop's only worker's.
type meters struct {
	took   *prometheus.HistogramVec
	forced *prometheus.CounterVec
	// attaching and detaching are what is measured, by the name of the attachment.
	attaching, detaching map[string]operation
}

type operation struct {
	node, plugin string
	began        time.Time
}

func newMeters(env runner.Env) *meters {
	return &meters{attaching: map[string]operation{}, detaching: map[string]operation{},
		took: env.Histogram("", "storage_operation_duration_seconds",
			"Seconds that attaching or detaching a volume took, by the driver.",
			[]float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
			"volume_plugin", "operation_name", "status", "migrated"),
		forced: env.Counter("attachdetach_controller", "forced_detaches",
			"Volumes taken from nodes that had them in use, by reason: timeout or out-of-service.", "reason"),
	}
}

const csiPlugin = "kubernetes.io/csi:"

// attached ends the measurement of an attachment.
func (m *meters) attached(name, status string, now time.Time) {
	if began, known := m.attaching[name]; known {
		m.took.WithLabelValues(began.plugin, "volume_attach", status, "false").Observe(now.Sub(began.began).Seconds())
		delete(m.attaching, name)
	}
}

// detached ends the measurement of the node's attachments that are gone.
func (m *meters) detached(v *view) {
	there := map[string]bool{}
	for _, attachment := range v.attachments {
		there[attachment.Name] = true
	}
	for name, began := range m.detaching {
		if began.node == v.name && !there[name] {
			m.took.WithLabelValues(began.plugin, "volume_detach", "success", "false").
				Observe(v.now.Sub(began.began).Seconds())
			delete(m.detaching, name)
		}
	}
}

// force counts a forced detachment.
func (m *meters) force(node *v1.Node) {
	reason := "timeout"
	if node != nil && outOfService(node) {
		reason = "out-of-service"
	}
	m.forced.WithLabelValues(reason).Inc()
}

// volumeCounts counts volumes when they are scraped.
type volumeCounts struct{ *Controller }

func totalDesc() *prometheus.Desc {
	return prometheus.NewDesc("attachdetach_controller_total_volumes",
		"Volumes that are to be attached, and that are.", []string{"plugin_name", "state"}, nil)
}

func inUseDesc() *prometheus.Desc {
	return prometheus.NewDesc("storage_count_attachable_volumes_in_use", "Attachable volumes that pods of a node use.",
		[]string{"node", "volume_plugin"}, nil)
}

// Describe implements prometheus.Collector.
func (volumeCounts) Describe(out chan<- *prometheus.Desc) {
	out <- totalDesc()
	out <- inUseDesc()
}

// Collect implements prometheus.Collector.
func (c volumeCounts) Collect(out chan<- prometheus.Metric) {
	states, used := map[[2]string]int{}, map[[2]string]int{}
	nodes, _ := c.nodes.List(labels.Everything()) // a lister of a cache does not fail
	for _, node := range nodes {
		wanted := map[string]bool{}
		for _, pod := range c.pods.OnNode(node.Name) {
			for _, volume := range c.volumesOf(pod) {
				plugin := csiPlugin + volume.Spec.CSI.Driver
				used[[2]string{node.Name, plugin}]++
				if needsVolumes(pod, node) && managed(node) && !wanted[volume.Name] {
					wanted[volume.Name] = true
					states[[2]string{plugin, "desired_state_of_world"}]++
				}
			}
		}
	}
	attachments, _ := c.attachments.List(labels.Everything())
	for _, attachment := range attachments {
		if attachment.Status.Attached {
			states[[2]string{csiPlugin + attachment.Spec.Attacher, "actual_state_of_world"}]++
		}
	}
	for by, n := range states {
		out <- prometheus.MustNewConstMetric(totalDesc(), prometheus.GaugeValue, float64(n), by[0], by[1])
	}
	for by, n := range used {
		out <- prometheus.MustNewConstMetric(inUseDesc(), prometheus.GaugeValue, float64(n), by[0], by[1])
	}
}
