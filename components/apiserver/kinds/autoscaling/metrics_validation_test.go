package autoscaling

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func TestMetricTypes(t *testing.T) {
	const metrics = "spec.metrics: "
	const cpu = "resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}"
	const pods = "pods: {metric: {name: qps}, target: {type: AverageValue, averageValue: 5}}"
	autoscaler().Create(t, kindtest.Table{
		metrics + "[{type: Resource, " + cpu + "}, {type: Pods, " + pods + "}]": nil,
		metrics + "[{}]": {
			"spec.metrics[0].type: Required value: must specify a metric source type",
			`spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", ` +
				`"Object", "Pods", "Resource"`,
			`spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", ` +
				`"Object", "Pods", "Resource"`,
		},
		metrics + "[{type: Weather}]": {
			`spec.metrics[0].type: Unsupported value: "Weather": supported values: "ContainerResource", ` +
				`"External", "Object", "Pods", "Resource"`,
			`spec.metrics[0].type: Unsupported value: "Weather": supported values: "ContainerResource", ` +
				`"External", "Object", "Pods", "Resource"`,
		},
		metrics + "[{type: Resource}]": {
			"spec.metrics[0].resource: Required value: must populate information for the given metric source",
		},
		metrics + "[{type: Resource, " + pods + "}]": {
			"spec.metrics[0].resource: Required value: must populate information for the given metric source",
		},
		metrics + "[{type: Resource, " + cpu + ", " + pods + "}]": {
			"spec.metrics[0].pods: Forbidden: must populate the given metric source only",
		},
		metrics + "[{type: Object}, {type: External}, {type: ContainerResource}]": {
			"spec.metrics[0].object: Required value: must populate information for the given metric source",
			"spec.metrics[1].external: Required value: must populate information for the given metric source",
			"spec.metrics[2].containerResource: Required value: must populate information for the given metric source",
		},
		metrics + "[{" + cpu + "}]": {
			"spec.metrics[0].type: Required value: must specify a metric source type",
			`spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", ` +
				`"Object", "Pods", "Resource"`,
			`spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", ` +
				`"Object", "Pods", "Resource"`,
		},
	})
}

func TestResourceMetrics(t *testing.T) {
	const resource = "spec.metrics: [{type: Resource, resource: "
	const container = "spec.metrics: [{type: ContainerResource, containerResource: "
	const target = "target: {type: Utilization, averageUtilization: 50}"
	autoscaler().Create(t, kindtest.Table{
		resource + "{name: memory, target: {type: AverageValue, averageValue: 1Gi}}}]": nil,
		resource + "{" + target + "}}]": {
			"spec.metrics[0].resource.name: Required value: must specify a resource name",
		},
		resource + "{name: cpu, target: {}}}]": {
			"spec.metrics[0].resource.target.type: Required value: must specify a metric target type",
			`spec.metrics[0].resource.target.type: Invalid value: "": must be either Utilization, Value, or ` +
				`AverageValue`,
			"spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw " +
				"value or a target utilization",
		},
		resource + "{name: cpu, target: {type: Share, averageUtilization: 5}}}]": {
			`spec.metrics[0].resource.target.type: Invalid value: "Share": must be either Utilization, Value, or ` +
				`AverageValue`,
		},
		resource + "{name: cpu, target: {type: Utilization, averageUtilization: 0}}}]": {
			"spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
		},
		resource + "{name: cpu, target: {type: Utilization, averageUtilization: 5, averageValue: 1}}}]": {
			"spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a " +
				"target utilization",
		},
		resource + "{name: cpu, target: {type: AverageValue, averageValue: 0}}}]": {
			`spec.metrics[0].resource.target.averageValue: Invalid value: "0": must be positive`,
		},
		resource + "{name: cpu, target: {type: Value, value: -1}}}]": {
			`spec.metrics[0].resource.target.value: Invalid value: "-1": must be positive`,
			"spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw " +
				"value or a target utilization",
		},
		container + "{name: cpu, container: c, " + target + "}}]": nil,
		container + "{" + target + "}}]": {
			"spec.metrics[0].containerResource.name: Required value: must specify a resource name",
			"spec.metrics[0].containerResource.container: Required value: must specify a container",
		},
		container + "{name: gpu, container: C, " + target + "}}]": {
			`spec.metrics[0].containerResource.name: Invalid value: "gpu": must be a standard resource type or ` +
				`fully qualified`,
			`spec.metrics[0].containerResource.name: Invalid value: "gpu": must be a standard resource for containers`,
			`spec.metrics[0].containerResource.container: Invalid value: "C": a lowercase RFC 1123 label must ` +
				`consist...`,
		},
		container + "{name: example.com/gpu, container: c, " + target + "}}]": nil,
		container + "{name: cpu, container: c, target: {type: Utilization}}}]": {
			"spec.metrics[0].containerResource.target.averageUtilization: Required value: must set either a target " +
				"raw value or a target utilization",
		},
	})
}

func TestCustomMetrics(t *testing.T) {
	const object = "spec.metrics: [{type: Object, object: "
	const external = "spec.metrics: [{type: External, external: "
	const pods = "spec.metrics: [{type: Pods, pods: "
	const service = "describedObject: {apiVersion: v1, kind: Service, name: web}"
	autoscaler().Create(t, kindtest.Table{
		object + "{" + service + ", metric: {name: rps}, target: {type: Value, value: 5}}}]":                  nil,
		object + "{" + service + ", metric: {name: rps}, target: {type: Value, value: 5, averageValue: 5}}}]": nil,
		object + "{" + service + ", metric: {name: rps}, target: {type: Value}}}]": {
			"spec.metrics[0].object.target.averageValue: Required value: must set either a target value or " +
				"averageValue",
		},
		object + "{" + service + ", metric: {}, target: {type: Value, value: 5}}}]": {
			"spec.metrics[0].object.metric.name: Required value: must specify a metric name",
		},
		object + "{" + service + ", metric: {name: a/b}, target: {type: Value, value: 5}}}]": {
			`spec.metrics[0].object.metric.name: Invalid value: "a/b": may not contain '/'`,
		},
		object + "{describedObject: {}, metric: {name: rps}, target: {type: Value, value: 5}}}]": {
			"spec.metrics[0].object.describedObject.kind: Required value",
			"spec.metrics[0].object.describedObject.name: Required value",
		},
		object + "{describedObject: {apiVersion: a/b/c, kind: K, name: k}, metric: {name: rps}, target: {type: " +
			"Value, value: 5}}}]": {
			`spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion ` +
				`string: a/b/c`,
		},
		external + "{metric: {name: q}, target: {type: Value, value: 5}}}]": nil,
		external + "{metric: {name: q}, target: {type: Value}}}]": {
			"spec.metrics[0].external.target.averageValue: Required value: must set either a target value for " +
				"metric or a per-pod target",
		},
		external + "{metric: {name: q}, target: {type: Value, value: 5, averageValue: 5}}}]": {
			"spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a " +
				"per-pod target",
		},
		external + "{metric: {name: '%'}, target: {type: Value, value: 0}}}]": {
			`spec.metrics[0].external.metric.name: Invalid value: "%": may not contain '%'`,
			`spec.metrics[0].external.target.value: Invalid value: "0": must be positive`,
		},
		pods + "{metric: {name: q}, target: {type: AverageValue, averageValue: 5}}}]": nil,
		pods + "{metric: {name: q}, target: {type: AverageValue}}}]": {
			"spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue",
		},
		pods + "{metric: {name: ''}, target: {type: AverageValue, averageValue: -5}}}]": {
			"spec.metrics[0].pods.metric.name: Required value: must specify a metric name",
			`spec.metrics[0].pods.target.averageValue: Invalid value: "-5": must be positive`,
		},
	})
	// An object whose version is malformed is kept where there was one such.
	const bad = object + "{describedObject: {apiVersion: a/b/c, kind: K, name: k}, metric: {name: rps}, target: " +
		"{type: Value, value: 5}}}]"
	autoscaler().Update(t, kindtest.Table{
		bad + " => spec.maxReplicas: 9": nil,
	})
}

func TestAutoscalerCells(t *testing.T) {
	row := func(targets, min, max, replicas string) []string {
		return []string{"web", "Deployment/web", targets, min, max, replicas, "24h"}
	}
	const cpu = "spec.metrics: [{type: Resource, resource: {name: cpu, target: "
	const ofCPU = "status.currentMetrics: [{type: Resource, resource: {name: cpu, current: "
	const external = "spec.metrics: [{type: External, external: {metric: {name: q}, target: "
	const ofExternal = "status.currentMetrics: [{type: External, external: {metric: {name: q}, current: "
	const one = "{type: Pods, pods: {metric: {name: q}, target: {type: AverageValue, averageValue: 5}}}"
	const object = "{type: Object, object: {describedObject: {kind: S, name: s}, metric: {name: q}, target: " +
		"{type: Value, value: 7}}}"
	autoscaler().Cells(t, kindtest.Table{
		"": row("cpu: <unknown>/80%", "1", "5", "0"),

		"spec.minReplicas: 2; status.currentReplicas: 3; " + ofCPU + "{averageUtilization: 20}}}]": row("cpu: 20%/80%",

			"2", "5", "3"),
		cpu + "{averageValue: 100m}}}]": row("cpu: <unknown>/100m", "1", "5", "0"),

		cpu + "{averageValue: 100m}}}]; " + ofCPU + "{averageValue: 40m}}}]": row("cpu: 40m/100m", "1", "5", "0"),

		"spec.metrics: [{type: ContainerResource, containerResource: {name: memory, container: c, target: " +
			"{averageUtilization: 60}}}]": row("memory: <unknown>/60%", "1", "5", "0"),
		external + "{value: 9}}}]": row("<unknown>/9", "1", "5", "0"),

		external + "{value: 9}}}]; " + ofExternal + "{value: 4}}}]": row("4/9", "1", "5", "0"),

		external + "{averageValue: 9}}}]": row("<unknown>/9 (avg)", "1", "5", "0"),

		external + "{averageValue: 9}}}]; " + ofExternal + "{averageValue: 3}}}]": row("3/9 (avg)", "1", "5", "0"),

		"spec.metrics: [" + object + "]":              row("<unknown>/7", "1", "5", "0"),
		"spec.metrics: [" + one + ", " + object + "]": row("<unknown>/5, <unknown>/7", "1", "5", "0"),
		"spec.metrics: [" + one + ", " + one + ", " + one + "]": row("<unknown>/5, <unknown>/5 + 1 more...", "1", "5",
			"0"),
		"spec.metrics: [" + one + "]; status.currentMetrics: [{type: Pods, pods: {metric: {name: q}, current: " +
			"{averageValue: 2}}}]": row("2/5", "1", "5", "0"),
		"spec.metrics: [{type: Weather}]": row("<unknown type>", "1", "5", "0"),
	})
}
