package policy

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func budget() kindtest.Fixture {
	return kindtest.Fixture{Kind: podDisruptionBudgets(), Object: `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {selector: {matchLabels: {app: web}}}
`}
}

func TestBudgetValidation(t *testing.T) {
	budget().Create(t, kindtest.Table{
		"":                          nil,
		"spec.selector: null":       nil,
		"spec.selector: {}":         nil,
		"spec.minAvailable: 2":      nil,
		"spec.maxUnavailable: 100%": nil,
		"spec.minAvailable: 0; spec.maxUnavailable: 0": {
			`spec: Invalid value: ` +
				`{"MinAvailable":0,"Selector":{"matchLabels":{"app":"web"}},"MaxUnavailable":0,` +
				`"UnhealthyPodEvictionPol` +
				`icy":null}: minAvailable and maxUnavailable cannot be both set`,
		},
		"spec.minAvailable: -1":   {"spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"},
		"spec.minAvailable: 101%": {`spec.minAvailable: Invalid value: "101%": must not be greater than 100%`},
		"spec.minAvailable: most": {
			`spec.minAvailable: Invalid value: "most": a valid percent string must be a numeric string followed by ` +
				`an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`,
		},
		"spec.maxUnavailable: -1%": {
			`spec.maxUnavailable: Invalid value: "-1%": a valid percent string must be a numeric string followed ` +
				`by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`,
		},
		"spec.maxUnavailable: 200%": {`spec.maxUnavailable: Invalid value: "200%": must not be greater than 100%`},
		"spec.selector.matchLabels.app: a b": {
			`spec.selector.matchLabels: Invalid value: "a b": a valid label must...`,
		},
		"spec.selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}": {
			"spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' " +
				"or 'DoesNotExist'",
		},
		"spec.unhealthyPodEvictionPolicy: AlwaysAllow": nil,
		"spec.unhealthyPodEvictionPolicy: Never": {
			`spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", ` +
				`"IfHealthyBudget"`,
		},
		"spec.unhealthyPodEvictionPolicy: ''": {
			`spec.unhealthyPodEvictionPolicy: Unsupported value: "": supported values: "AlwaysAllow", ` +
				`"IfHealthyBudget"`,
		},
	})
	budget().Stored(t, "create", kindtest.Table{
		"": {
			"metadata.generation: 1",
			"spec.unhealthyPodEvictionPolicy: null",
			"spec.minAvailable: null",
		},
		"status.currentHealthy: 4": {"status.currentHealthy: 0"},
	})
}

func TestBudgetUpdate(t *testing.T) {
	const bad = "spec.selector: {matchExpressions: [{key: a, operator: In, values: ['b c']}]}"
	budget().Update(t, kindtest.Table{
		"spec.minAvailable: 3":                 nil,
		"spec.selector.matchLabels.app: other": nil,
		bad: {
			`spec.selector.matchExpressions[0].values[0]: Invalid value: "b c": a valid label must...`,
		},
		bad + " => spec.minAvailable: 3": nil,
		bad + " => spec.minAvailable: -3": {
			"spec.minAvailable: Invalid value: -3: must be greater than or equal to 0",
		},
	})
	budget().Stored(t, "update", kindtest.Table{
		"metadata.generation: 1; status.currentHealthy: 4 => spec.minAvailable: 3; status.currentHealthy: 0": {
			"metadata.generation: 2", "status.currentHealthy: 4",
		},
		"metadata.generation: 1 => metadata.labels.a: b": {"metadata.generation: 1"},
	})
}

func TestBudgetStatus(t *testing.T) {
	budget().Subresource(t, "status", kindtest.Table{
		"status: {disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2, expectedPods: 3}": nil,
		"status: {disruptionsAllowed: -1, currentHealthy: -1, desiredHealthy: -1, expectedPods: -1}": {
			"status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0",
			"status.currentHealthy: Invalid value: -1: must be greater than or equal to 0",
			"status.desiredHealthy: Invalid value: -1: must be greater than or equal to 0",
			"status.expectedPods: Invalid value: -1: must be greater than or equal to 0",
		},
		"status.conditions: [{type: A b, status: Maybe, reason: '', lastTransitionTime: 2026-01-02T12:00:00Z}]": {
			`status.conditions[0].type: Invalid value: "A b": name part must consist...`,
			`status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`,
			"status.conditions[0].reason: Required value",
		},
		"status.conditions: [{type: A, status: 'True', reason: R}]": {
			"status.conditions[0].lastTransitionTime: Required value",
		},
	})
	budget().Stored(t, "status", kindtest.Table{
		"spec.minAvailable: 3; status.currentHealthy: 4": {"spec.minAvailable: null", "status.currentHealthy: 4"},
	})
	budget().Cells(t, kindtest.Table{
		"": {"web", "N/A", "N/A", "0", "24h"},
		"spec.minAvailable: 50%; status.disruptionsAllowed: 2": {"web", "50%", "N/A", "2", "24h"},
		"spec.maxUnavailable: 1":                               {"web", "N/A", "1", "0", "24h"},
	})
}
