package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// Volumes measures the volumes of pods.
type Volumes interface {
	Measure(ctx context.Context, pod *v1.Pod) []volumes.Measured
}

// volumeStats is how full the volumes of a pod are.
func (s *Server) volumeStats(ctx context.Context, pod *v1.Pod) []stats.VolumeStats {
	if s.Volumes == nil {
		return nil
	}
	now := metav1.NewTime(s.Clock.Now())
	var all []stats.VolumeStats
	for _, m := range s.Volumes.Measure(ctx, pod) {
		one := stats.VolumeStats{Name: m.Name, FsStats: stats.FsStats{
			Time: now, CapacityBytes: count(m.Capacity), AvailableBytes: count(m.Available), UsedBytes: count(m.Used),
			Inodes: count(m.Inodes), InodesFree: count(m.InodesFree), InodesUsed: count(m.InodesUsed),
		}}
		if m.Claim != "" {
			one.PVCRef = &stats.PVCReference{Name: m.Claim, Namespace: pod.Namespace}
		}
		all = append(all, one)
	}
	return all
}

func count(n int64) *uint64 { return new(uint64(max(n, 0))) }

// volumeMetrics are the figures of claimed volumes, which a scrape measures.
type volumeMetrics struct {
	pods    Pods
	volumes Volumes
}

// measureTimeout bounds a scrape: a driver may take its time.
const measureTimeout = 10 * time.Second

func volumeDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("kubelet_volume_stats_"+name, help,
		[]string{"namespace", "persistentvolumeclaim"}, nil)
}

// volumeFigures are upstream's metrics of a claimed volume.
func volumeFigures() []volumeFigure {
	return []volumeFigure{
		{volumeDesc("capacity_bytes", "Capacity in bytes of the volume"), func(u *volumes.Usage) int64 { return u.Capacity }},
		{volumeDesc("available_bytes", "Number of available bytes in the volume"),
			func(u *volumes.Usage) int64 { return u.Available }},
		{volumeDesc("used_bytes", "Number of used bytes in the volume"), func(u *volumes.Usage) int64 { return u.Used }},
		{volumeDesc("inodes", "Maximum number of inodes in the volume"), func(u *volumes.Usage) int64 { return u.Inodes }},
		{volumeDesc("inodes_free", "Number of free inodes in the volume"),
			func(u *volumes.Usage) int64 { return u.InodesFree }},
		{volumeDesc("inodes_used", "Number of used inodes in the volume"),
			func(u *volumes.Usage) int64 { return u.InodesUsed }},
	}
}

type volumeFigure struct {
	desc  *prometheus.Desc
	value func(*volumes.Usage) int64
}

// NewVolumeMetrics makes the collector of the metrics of claimed volumes.
func NewVolumeMetrics(pods Pods, volumes Volumes) prometheus.Collector {
	return &volumeMetrics{pods: pods, volumes: volumes}
}

// Describe implements prometheus.Collector.
func (m *volumeMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, figure := range volumeFigures() {
		descriptions <- figure.desc
	}
}

// Collect implements prometheus.Collector. A claim that several pods of the node use is told of once.
func (m *volumeMetrics) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), measureTimeout)
	defer cancel()
	figures, told := volumeFigures(), map[string]bool{}
	for _, pod := range m.pods.List() {
		for _, measured := range m.volumes.Measure(ctx, pod) {
			key := pod.Namespace + "/" + measured.Claim
			if measured.Claim == "" || told[key] {
				continue
			}
			told[key] = true
			for _, figure := range figures {
				metrics <- prometheus.MustNewConstMetric(figure.desc, prometheus.GaugeValue,
					float64(figure.value(&measured.Usage)), pod.Namespace, measured.Claim)
			}
		}
	}
}
