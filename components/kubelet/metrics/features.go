package metrics

import "github.com/prometheus/client_golang/prometheus"

// features are those of kubelet 1.36 that this one has, with their stage; that of features which are there for good is
// "". on has those that are off by default, and may be turned on.
func features(on map[string]bool) prometheus.Collector {
	m := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubernetes_feature_enabled",
		Help: "Which features are on (1) and off (0), by name and stage."}, []string{"name", "stage"})
	for name, stage := range map[string]string{
		"InPlacePodVerticalScaling": "", "KubeletFineGrainedAuthz": "", "PodLogsQuerySplitStreams": "BETA",
		"RecursiveReadOnlyMounts": "", "RotateKubeletServerCertificate": "BETA", "SidecarContainers": "",
	} {
		m.WithLabelValues(name, stage).Set(1)
	}
	for name, stage := range map[string]string{
		"ClusterTrustBundleProjection": "BETA", "ContainerStopSignals": "ALPHA", "PodCertificateRequest": "BETA",
	} {
		value := 0.0
		if on[name] {
			value = 1
		}
		m.WithLabelValues(name, stage).Set(value)
	}
	return m
}
