package batch

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func TestJobUpdate(t *testing.T) {
	selfMade().Update(t, kindtest.Table{
		"":                    nil,
		"spec.parallelism: 5": nil,
		"spec.parallelism: -5": {
			"spec.parallelism: Invalid value: -5: must be greater than or equal to 0",
			"spec.parallelism: Invalid value: -5: must be greater than or equal to 0",
		}, // told of the object, and of the change
		"spec.suspend: true":                nil,
		"spec.backoffLimit: 3":              nil,
		"spec.activeDeadlineSeconds: 3":     nil,
		"spec.ttlSecondsAfterFinished: 3":   nil,
		"spec.podReplacementPolicy: Failed": nil,
		"spec.completions: 2":               {"spec.completions: Invalid value: 2: field is immutable"},
		"spec.completionMode: Indexed":      {`spec.completionMode: Invalid value: "Indexed": field is immutable`},
		"spec.selector.matchLabels: {a: b, c: d}; spec.template.metadata.labels: {a: b, c: d}": {
			`spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable`,
			"spec.template: Invalid value: {...",
		},
		"spec.template.spec.containers[0].image: other": {"spec.template: Invalid value: {..."},
		"spec.template.metadata.labels.c: d":            {"spec.template: Invalid value: {..."},
		"spec.managedBy: example.com/x": {
			`spec.managedBy: Invalid value: "example.com/x": field is immutable`,
		},
		"spec.managedBy: example.com/x => spec.managedBy: null": {
			"spec.managedBy: Invalid value: null: field is immutable",
		},
		"spec.podFailurePolicy.rules: [{action: Count, onPodConditions: [{type: Ready}]}]; " +
			"spec.podReplacementPolicy: Failed": {
			`spec.podFailurePolicy: Invalid value: ` +
				`{"Rules":[{"Action":"Count","OnExitCodes":null,"OnPodConditions":` +
				`[{"Type":"Ready","Status":"True"}]}]}` +
				`: field is immutable`,
		},
		"spec.completionMode: Indexed; spec.completions: 2 => spec.backoffLimitPerIndex: 1": {
			"spec.backoffLimitPerIndex: Invalid value: 1: field is immutable",
		},
		"spec.completionMode: Indexed; spec.completions: 2 => spec.successPolicy.rules: [{succeededCount: 1}]": {
			`spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: field is ` +
				`immutable`,
		},
		"spec.completionMode: Indexed; spec.completions: 2 => spec.completions: 3; spec.parallelism: 3": nil,
		"spec.completionMode: Indexed; spec.completions: 2 => spec.completions: 3": {
			"spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism",
		},
		"spec.completionMode: Indexed; spec.completions: 2 => spec.completions: null": {
			"spec.completions: Required value: when completion mode is Indexed",
			"spec.completions: Required value: when completion mode is Indexed",
		},
	})
	selfMade().Stored(t, "update", kindtest.Table{
		"metadata.generation: 2; status.active: 1 => spec.parallelism: 5; status.active: 3": {
			"metadata.generation: 3", "status.active: 1",
		},
		"metadata.generation: 2 => metadata.labels.c: d": {"metadata.generation: 2"},
	})
	selfMade().Stored(t, "status", kindtest.Table{
		"status.active: 1 => spec.parallelism: 5; status.active: 3": {"spec.parallelism: 1", "status.active: 3"},
	})
}

// TestSuspendedTemplate: while nothing of a suspended job runs, a queue may say where and with what its pods will run.
func TestSuspendedTemplate(t *testing.T) {
	suspended := selfMade().With(t, "spec.suspend: true")
	const changed = "spec.template.spec: Invalid value: {..."
	suspended.Update(t, kindtest.Table{
		"spec.template.spec.nodeSelector: {zone: a}":                          nil,
		"spec.template.spec.tolerations: [{key: a, operator: Exists}]":        nil,
		"spec.template.spec.schedulingGates: [{name: a.b/c}]":                 nil,
		"spec.template.metadata: {labels: {a: b, c: d}, annotations: {e: f}}": nil,
		"spec.template.spec.containers[0].resources: {requests: {cpu: '1'}}":  nil,
		"spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: " +
			"[{matchExpressions: [{key: a, operator: Exists}]}]": nil,
		"spec.template.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, " +
			"labelSelector: {matchLabels: {a: b}}}]": {changed},
		"spec.template.spec.containers[0].image: other":                                                  {changed},
		"spec.template.spec.priorityClassName: high":                                                     {changed},
		"spec.template.spec.containers: [{name: c, image: perl}, {name: d, image: perl, resources: {}}]": {changed},
		"status.active: 1 => spec.template.spec.nodeSelector: {zone: a}": {
			"spec.template: Invalid value: {...",
		},
		"status.startTime: 2026-01-02T12:00:00Z => spec.template.spec.nodeSelector: {zone: a}": {
			"spec.template: Invalid value: {...",
		},
		"status: {startTime: 2026-01-02T12:00:00Z, conditions: [{type: Suspended, status: 'True'}]}" +
			" => spec.template.spec.nodeSelector: {zone: a}": nil,
	})
}
