package persistentvolume

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/controllers/runner"
)

// operations measure what provisioners do, from when they are asked to when it is there or gone. They are the loop's
// only worker's.
type operations struct {
	took  *prometheus.HistogramVec
	since map[key]operation
}

type operation struct {
	plugin string
	began  time.Time
}

func newOperations(env runner.Env) *operations {
	return &operations{since: map[key]operation{}, took: env.Histogram("", "volume_operation_total_seconds",
		"Seconds from asking for a volume to be provisioned or deleted until it was.",
		[]float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}, "plugin_name", "operation_name")}
}

// begin notes when a provisioner was asked first.
func (o *operations) begin(k key, plugin string, now time.Time) {
	if _, known := o.since[k]; !known {
		o.since[k] = operation{plugin, now}
	}
}

// end measures an operation that was noted.
func (o *operations) end(k key, name string, now time.Time) {
	if began, known := o.since[k]; known {
		o.took.WithLabelValues(began.plugin, name).Observe(now.Sub(began.began).Seconds())
		delete(o.since, k)
	}
}

// note begins the deletion of a volume that its provisioner has to delete.
func (o *operations) note(volume *v1.PersistentVolume, now time.Time) {
	if volume.Status.Phase == v1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
		plugin := volume.Annotations[storagehelpers.AnnDynamicallyProvisioned]
		if plugin == "" {
			plugin = pluginOf(volume)
		}
		o.begin(key{name: volume.Name}, plugin, now)
	}
}
