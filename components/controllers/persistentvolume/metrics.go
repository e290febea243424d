package persistentvolume

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// counted counts volumes and claims when it is asked, under the names of upstream's metrics.
type counted struct {
	volumes corelisters.PersistentVolumeLister
	claims  corelisters.PersistentVolumeClaimLister
}

type descriptions struct{ total, boundVolumes, unboundVolumes, boundClaims, unboundClaims *prometheus.Desc }

func describe() descriptions {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pv_collector_"+name, help, labels, nil)
	}
	return descriptions{
		total:          desc("total_pv_count", "Volumes.", "plugin_name", "volume_mode"),
		boundVolumes:   desc("bound_pv_count", "Volumes that are bound.", "storage_class"),
		unboundVolumes: desc("unbound_pv_count", "Volumes that are not bound.", "storage_class"),
		boundClaims: desc("bound_pvc_count", "Claims that are bound.", "namespace", "storage_class",
			"volume_attributes_class"),
		unboundClaims: desc("unbound_pvc_count", "Claims that are not bound.", "namespace", "storage_class",
			"volume_attributes_class"),
	}
}

// Describe implements prometheus.Collector.
func (counted) Describe(out chan<- *prometheus.Desc) {
	d := describe()
	for _, desc := range []*prometheus.Desc{d.total, d.boundVolumes, d.unboundVolumes, d.boundClaims, d.unboundClaims} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c counted) Collect(out chan<- prometheus.Metric) {
	d := describe()
	counts := map[*prometheus.Desc]map[[3]string]int{}
	add := func(desc *prometheus.Desc, values ...string) {
		if counts[desc] == nil {
			counts[desc] = map[[3]string]int{}
		}
		var key [3]string
		copy(key[:], values)
		counts[desc][key]++
	}
	volumes, _ := c.volumes.List(labels.Everything()) // a lister of a cache does not fail
	for _, volume := range volumes {
		add(d.total, pluginOf(volume), string(ptr.Deref(volume.Spec.VolumeMode, v1.PersistentVolumeFilesystem)))
		desc := d.unboundVolumes
		if volume.Status.Phase == v1.VolumeBound {
			desc = d.boundVolumes
		}
		add(desc, volume.Spec.StorageClassName)
	}
	claims, _ := c.claims.List(labels.Everything())
	for _, claim := range claims {
		desc := d.unboundClaims
		if claim.Status.Phase == v1.ClaimBound {
			desc = d.boundClaims
		}
		add(desc, claim.Namespace, storagehelpers.GetPersistentVolumeClaimClass(claim),
			ptr.Deref(claim.Spec.VolumeAttributesClassName, ""))
	}
	width := map[*prometheus.Desc]int{d.total: 2, d.boundVolumes: 1, d.unboundVolumes: 1, d.boundClaims: 3,
		d.unboundClaims: 3}
	for desc, byLabels := range counts {
		for values, n := range byLabels {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), values[:width[desc]]...)
		}
	}
}

// pluginOf is what upstream calls the plug-in of a volume.
func pluginOf(volume *v1.PersistentVolume) string {
	source := &volume.Spec.PersistentVolumeSource
	switch {
	case source.CSI != nil:
		return "kubernetes.io/csi:" + source.CSI.Driver
	case source.HostPath != nil:
		return "kubernetes.io/host-path"
	case source.Local != nil:
		return "kubernetes.io/local-volume"
	case source.NFS != nil:
		return "kubernetes.io/nfs"
	case source.ISCSI != nil:
		return "kubernetes.io/iscsi"
	case source.FC != nil:
		return "kubernetes.io/fc"
	case source.FlexVolume != nil:
		return source.FlexVolume.Driver
	}
	return "N/A"
}
