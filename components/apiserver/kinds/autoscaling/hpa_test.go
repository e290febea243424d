package autoscaling

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func autoscaler() kindtest.Fixture {
	return kindtest.Fixture{Kind: horizontalPodAutoscalers(api.Deps{}), Object: `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 5
`}
}

func TestReplicaBounds(t *testing.T) {
	autoscaler().Create(t, kindtest.Table{
		"": nil,
		"spec.maxReplicas: 0": {
			"spec.maxReplicas: Required value: must be set and greater than 0",
			"spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
		},
		"spec.maxReplicas: -1": {
			"spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
			"spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
		},
		"spec.minReplicas: 5":  nil,
		"spec.minReplicas: 6":  {"spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"},
		"spec.minReplicas: -1": {"spec.minReplicas: Invalid value: -1: must be greater than or equal to 1"},
		"spec.minReplicas: 0": {
			"spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
			"spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to " +
				"zero replicas",
		},
		"metadata.name: Web": {`metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must...`},
	})
	const queue = "spec.metrics: [{type: External, external: {metric: {name: queue}, target: {type: Value, value: 5}}}]"
	toZero := kindtest.Fixture{Kind: horizontalPodAutoscalers(api.Deps{ScaleToZero: true}), Object: autoscaler().Object}
	toZero.Create(t, kindtest.Table{
		"spec.minReplicas: 0": {
			"spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to " +
				"zero replicas",
		},
		"spec.minReplicas: 0; " + queue:  nil,
		"spec.minReplicas: -1; " + queue: {"spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"},
	})
	autoscaler().Update(t, kindtest.Table{
		"spec.minReplicas: 0; " + queue + " => spec.maxReplicas: 7": nil, // it was 0 already
		queue + " => spec.minReplicas: 0": {"spec.minReplicas: Invalid value: 0: must " +
			"be greater than or equal to 1"},
	})
}

func TestScaleTarget(t *testing.T) {
	const ref = "spec.scaleTargetRef: "
	autoscaler().Create(t, kindtest.Table{
		ref + "{apiVersion: v1, kind: ReplicationController, name: rc}": nil,
		ref + "{apiVersion: v1, kind: Pod, name: p}": {
			`spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group`,
		},
		ref + "{kind: Deployment, name: web}": {
			`spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`,
		},
		ref + "{kind: ReplicationController, name: web}": nil,
		ref + "{apiVersion: a/b/c, kind: Deployment, name: web}": {
			`spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`,
		},
		ref + "{apiVersion: apps/v1}": {
			"spec.scaleTargetRef.kind: Required value",
			"spec.scaleTargetRef.name: Required value",
		},
		ref + "{apiVersion: apps/v1, kind: a/b, name: ..}": {
			`spec.scaleTargetRef.kind: Invalid value: "a/b": may not contain '/'`,
			`spec.scaleTargetRef.name: Invalid value: "..": may not be '..'`,
		},
	})
	autoscaler().Update(t, kindtest.Table{
		// such was accepted before
		ref + "{kind: Deployment, name: web} => spec.maxReplicas: 7":                      nil,
		ref + "{kind: Deployment, name: web} => " + ref + "{kind: Deployment, name: api}": nil,
		ref + "{kind: Deployment, name: web} => " + ref + "{kind: StatefulSet, name: web}": {
			`spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`,
		},
		ref + "{apiVersion: apps/v1, kind: StatefulSet, name: db}": nil,
	})
}

func TestScalingBehavior(t *testing.T) {
	const up, down = "spec.behavior.scaleUp: ", "spec.behavior.scaleDown: "
	autoscaler().Create(t, kindtest.Table{
		up + "{stabilizationWindowSeconds: 3600, selectPolicy: Disabled, tolerance: '0.1'}": nil,
		up + "{stabilizationWindowSeconds: 3601}": {
			"spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to " +
				"3600",
		},
		up + "{stabilizationWindowSeconds: -1}": {
			"spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to " +
				"zero",
		},
		up + "{selectPolicy: Some}": {
			`spec.behavior.scaleUp.selectPolicy: Unsupported value: "Some": supported values: "Disabled", "Max", ` +
				`"Min"`,
		},
		up + "{policies: []}": {"spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"},
		up + "{policies: [{type: Pods, value: 1, periodSeconds: 1800}, {type: Percent, value: 200, periodSeconds: " +
			"1}]}": nil,
		up + "{policies: [{type: Pods, value: 0, periodSeconds: 0}]}": {
			"spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
			"spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 0: must be greater than zero",
		},
		up + "{policies: [{type: Pods, value: 1, periodSeconds: 1801}]}": {
			"spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
		},
		up + "{policies: [{type: Share, value: 1, periodSeconds: 1}]}": {
			`spec.behavior.scaleUp.policies[0].type: Unsupported value: "Share": supported values: "Percent", "Pods"`,
		},
		up + "{tolerance: '-0.1'}": {
			`spec.behavior.scaleUp.tolerance: Invalid value: "-100m": must be greater than or equal to 0`,
		},
		up + "{tolerance: 0}": nil,
		down + "{stabilizationWindowSeconds: -1, selectPolicy: All}": {
			"spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal " +
				"to zero",
			`spec.behavior.scaleDown.selectPolicy: Unsupported value: "All": supported values: "Disabled", "Max", ` +
				`"Min"`,
		},
	})
}

func TestAutoscalerDefaults(t *testing.T) {
	autoscaler().Stored(t, "create", kindtest.Table{
		"": {
			"spec.minReplicas: 1", "spec.metrics[0].type: Resource", "spec.metrics[0].resource.name: cpu",
			"spec.metrics[0].resource.target.type: Utilization",
			"spec.metrics[0].resource.target.averageUtilization: 80", "spec.behavior: null",
		},
		"spec.behavior: {}": {
			"spec.behavior.scaleUp.stabilizationWindowSeconds: 0", "spec.behavior.scaleUp.selectPolicy: Max",
			"spec.behavior.scaleUp.policies[0]: {type: Pods, value: 4, periodSeconds: 15}",
			"spec.behavior.scaleUp.policies[1]: {type: Percent, value: 100, periodSeconds: 15}",
			"spec.behavior.scaleDown.stabilizationWindowSeconds: null", "spec.behavior.scaleDown.selectPolicy: Max",
			"spec.behavior.scaleDown.policies[0]: {type: Percent, value: 100, periodSeconds: 15}",
			"spec.behavior.scaleDown.policies[1]: null",
		},
		"spec.behavior.scaleDown: {selectPolicy: Min, policies: [{type: Pods, value: 1, periodSeconds: 60}]}": {
			"spec.behavior.scaleDown.selectPolicy: Min", "spec.behavior.scaleDown.policies[0].value: 1",
			"spec.behavior.scaleDown.policies[1]: null", "spec.behavior.scaleUp.selectPolicy: Max",
		},
		"status.currentReplicas: 3": {"status.currentReplicas: null"},
		`metadata.annotations: {autoscaling.alpha.kubernetes.io/behavior: "{}", mine: x}`: {
			"metadata.annotations: {mine: x}", // they are v1's
		},
	})
}

func TestAutoscalerStatus(t *testing.T) {
	autoscaler().Subresource(t, "status", kindtest.Table{
		"status: {currentReplicas: 3, desiredReplicas: 9}": nil,
		"status: {currentReplicas: -1, desiredReplicas: -1}": {
			"status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
			"status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0",
		},
	})
	autoscaler().Stored(t, "status", kindtest.Table{
		"spec.maxReplicas: 9; status.currentReplicas: 3": {"spec.maxReplicas: 5", "status.currentReplicas: 3"},
	})
	autoscaler().Stored(t, "update", kindtest.Table{
		"status.currentReplicas: 3 => spec.maxReplicas: 9; status.currentReplicas: 4": {
			"spec.maxReplicas: 9", "status.currentReplicas: 3", "metadata.generation: null",
		},
	})
}

// TestV1: what v1 has no field for comes in annotations, and shows in none of v2.
func TestV1(t *testing.T) {
	v1 := kindtest.Fixture{Kind: horizontalPodAutoscalers(api.Deps{}), Object: `
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 5
`}
	const metrics = `metadata.annotations: {autoscaling.alpha.kubernetes.io/metrics: '[{"type":"Pods","pods":` +
		`{"metricName":"qps","targetAverageValue":"5"}}]'}`
	v1.Stored(t, "create", kindtest.Table{
		"": {"spec.targetCPUUtilizationPercentage: 80", "spec.minReplicas: 1"},
		"spec.targetCPUUtilizationPercentage: 50": {"spec.targetCPUUtilizationPercentage: 50"},
		metrics: {"spec.targetCPUUtilizationPercentage: null"},
		metrics + "; spec.targetCPUUtilizationPercentage: 50": {"spec.targetCPUUtilizationPercentage: 50"},
		`metadata.annotations: {autoscaling.alpha.kubernetes.io/metrics: 'x'}`: {
			"metadata.annotations: null", "spec.targetCPUUtilizationPercentage: 80",
		},
	})
	v1.Create(t, kindtest.Table{
		metrics: nil,
		"spec.targetCPUUtilizationPercentage: 0": {
			"spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
		},
		`metadata.annotations: {autoscaling.alpha.kubernetes.io/metrics: '[{"type":"Pods","pods":{}}]'}`: {
			"spec.metrics[0].pods.metric.name: Required value: must specify a metric name",
			`spec.metrics[0].pods.target.averageValue: Invalid value: "0": must be positive`,
		},
		`metadata.annotations: {autoscaling.alpha.kubernetes.io/behavior: '{"ScaleUp":{"SelectPolicy":"Most"}}'}`: {
			`spec.behavior.scaleUp.selectPolicy: Unsupported value: "Most": supported values: "Disabled", "Max", ` +
				`"Min"`,
		},
	})
}
