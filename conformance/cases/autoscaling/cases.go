// Package autoscaling holds the cases of horizontal pod autoscalers, and of the metrics that they read.
package autoscaling

import (
	"quintet.dev/quintet/conformance/suite"
)

const (
	autoscale = "https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/"
	scaling   = "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/"
)

// Cases returns the cases of horizontal pod autoscalers.
func Cases() []suite.Case {
	all := []suite.Case{
		{ID: "autoscaling/min-replicas", Run: minReplicas, Reference: scaling,
			Requirement: "A target with fewer replicas than minReplicas MUST be scaled to that many."},
		{ID: "autoscaling/max-replicas", Run: maxReplicas, Reference: scaling,
			Requirement: "A target with more replicas than maxReplicas MUST be scaled to that many."},
		{ID: "autoscaling/disabled", Run: disabled, Reference: autoscale + "#implicit-maintenance-mode-deactivation",
			Requirement: "A target with no replicas MUST keep none, and its autoscaler MUST tell that scaling is disabled."},
		{ID: "autoscaling/missing-metric", Run: missingMetric, Reference: autoscale + "#algorithm-details",
			Requirement: "A target of which a metric is missing MUST keep its size, and its autoscaler MUST tell why."},
		{ID: "autoscaling/ambiguous-selector", Run: ambiguous, Reference: autoscale,
			Requirement: "Of two autoscalers of the same pods, neither MUST scale, and both MUST tell why."},
		{ID: "autoscaling/resource-metrics", Run: resourceMetrics, Reference: autoscale + "#support-for-resource-metrics",
			Needs: []suite.Feature{suite.HasScheduler, suite.ResourceMetrics}, Timeout: metricsTimeout,
			Requirement: "The usage of nodes and pods MUST be served, and an autoscaler on CPU utilization MUST report it."},
	}
	for i := range all {
		all[i].Component, all[i].Since = suite.Controllers, "0.2"
		all[i].Needs = append(all[i].Needs, suite.HasControllers)
	}
	return all
}
