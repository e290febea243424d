package batch

import (
	"fmt"
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

// list is a YAML list of n items, numbered where an item has a verb for it.
func list(n int, item string) string {
	items := make([]string, n)
	for i := range items {
		if items[i] = item; strings.Contains(item, "%") {
			items[i] = fmt.Sprintf(item, i+1)
		}
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func TestPodFailurePolicy(t *testing.T) {
	const rules = "spec.podFailurePolicy.rules: "
	const condition = "{action: Count, onPodConditions: [{type: Ready}]}"
	j := job().With(t, "spec.template.spec.initContainers: [{name: init, image: i}]")
	j.Create(t, kindtest.Table{
		rules + "[]": nil,
		rules + "[{action: FailJob, onExitCodes: {operator: In, values: [1, 42]}}]":                nil,
		rules + "[{action: Ignore, onExitCodes: {operator: NotIn, values: [0]}}]":                  nil,
		rules + "[{action: Count, onExitCodes: {containerName: init, operator: In, values: [1]}}]": nil,
		rules + "[{action: Count, onExitCodes: {containerName: other, operator: In, values: [1]}}]": {
			`spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: "other": must be one of the ` +
				`container or initContainer names in the pod template`,
		},
		rules + "[{action: Count, onExitCodes: {operator: In, values: [0, 1]}}]": {
			"spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In " +
				"operator",
		},
		rules + "[{action: Count, onExitCodes: {operator: In, values: []}}]": {
			"spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: []: at least one value is required",
		},
		rules + "[{action: Count, onExitCodes: {operator: In, values: [2, 1]}}]": {
			"spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered",
		},
		rules + "[{action: Count, onExitCodes: {operator: In, values: [1, 1]}}]": {
			"spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Duplicate value: 1",
		},
		rules + "[{action: Count, onExitCodes: {operator: In, values: " + list(255, "%d") + "}}]": nil,
		rules + "[{action: Count, onExitCodes: {operator: In, values: " + list(256, "%d") + "}}]": {
			"spec.podFailurePolicy.rules[0].onExitCodes.values: Too many: 256: must have at most 255 items",
		},
		rules + "[{action: Count, onExitCodes: {values: [1]}}]": {
			`spec.podFailurePolicy.rules[0].onExitCodes.operator: Required value: valid values: ["In" "NotIn"]`,
		},
		rules + "[{action: Count, onExitCodes: {operator: Near, values: [1]}}]": {
			`spec.podFailurePolicy.rules[0].onExitCodes.operator: Unsupported value: "Near": supported values: ` +
				`"In", "NotIn"`,
		},
		rules + "[{onPodConditions: [{type: Ready}]}]": {
			`spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" ` +
				`"Ignore"]`,
		},
		rules + "[{action: Panic, onPodConditions: [{type: Ready}]}]": {
			`spec.podFailurePolicy.rules[0].action: Unsupported value: "Panic": supported values: "Count", ` +
				`"FailIndex", "FailJob", "Ignore"`,
		},
		rules + "[{action: FailIndex, onPodConditions: [{type: Ready}]}]": {
			`spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex ` +
				`to be set`,
		},
		rules + "[{action: Count, onPodConditions: [{type: 'a b', status: Perhaps}]}]": {
			`spec.podFailurePolicy.rules[0].onPodConditions[0].type: Invalid value: "a b": name part must consist...`,
			`spec.podFailurePolicy.rules[0].onPodConditions[0].status: Unsupported value: "Perhaps": supported ` +
				`values: "False", "True", "Unknown"`,
		},
		rules + "[{action: Count, onPodConditions: [{status: 'True'}]}]": {
			`spec.podFailurePolicy.rules[0].onPodConditions[0].type: Invalid value: "": name part must be non-empty`,
			`spec.podFailurePolicy.rules[0].onPodConditions[0].type: Invalid value: "": name part must consist...`,
		},
		rules + "[{action: Count}]": {
			"spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is " +
				"required",
		},
		rules + "[{action: Count, onExitCodes: {operator: In, values: [1]}, onPodConditions: [{type: Ready}]}]": {
			"spec.podFailurePolicy.rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is not " +
				"supported",
		},
		rules + "[{action: Count, onPodConditions: " + list(21, "{type: Ready}") + "}]": {
			"spec.podFailurePolicy.rules[0].onPodConditions: Too many: 21: must have at most 20 items",
		},
		rules + list(20, condition): nil,
		rules + list(21, condition): {"spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"},
		rules + "[" + condition + "]; spec.template.spec.restartPolicy: OnFailure": {
			`spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when ` +
				`podFailurePolicy is specified`,
		},
		rules + "[" + condition + "]; spec.podReplacementPolicy: TerminatingOrFailed": {
			`spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"`,
		},
		rules + "[" + condition + "]; spec.podReplacementPolicy: Failed": nil,
		"spec.podReplacementPolicy: Failed":                              nil,
		"spec.podReplacementPolicy: Never": {
			`spec.podReplacementPolicy: Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed"`,
		},
		"spec.podReplacementPolicy: ''": {
			`spec.podReplacementPolicy: Unsupported value: "": supported values: "Failed", "TerminatingOrFailed"`,
		},
	})
	j.With(t, "spec.completionMode: Indexed; spec.completions: 3; spec.backoffLimitPerIndex: 1").
		Create(t, kindtest.Table{rules + "[{action: FailIndex, onPodConditions: [{type: Ready}]}]": nil})
}

func TestSuccessPolicy(t *testing.T) {
	const rules = "spec.successPolicy.rules: "
	job().Create(t, kindtest.Table{
		rules + "[{succeededCount: 1}]": {
			`spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires ` +
				`indexed completion mode`,
		},
	})
	job().With(t, "spec.completionMode: Indexed; spec.completions: 5").Create(t, kindtest.Table{
		rules + "[{succeededCount: 5}]":                            nil,
		rules + "[{succeededIndexes: '0,2-4'}]":                    nil,
		rules + "[{succeededIndexes: '0,2-4', succeededCount: 4}]": nil,
		rules + "[{succeededIndexes: '0,2-4', succeededCount: 5}]": {
			"spec.successPolicy.rules[0].succeededCount: Invalid value: 5: must be less than or equal to 4 (the " +
				"number of indexes in the specified succeededIndexes field)",
		},
		rules + "[{succeededCount: 6}]": {
			"spec.successPolicy.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 5 (the " +
				"number of specified completions)",
		},
		rules + "[{succeededCount: -1}]": {
			"spec.successPolicy.rules[0].succeededCount: Invalid value: -1: must be greater than or equal to 0",
		},
		rules + "[{}]": {
			"spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must " +
				"be specified",
		},
		rules + "[]": {
			"spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy " +
				"is specified",
		},
		rules + "[{succeededIndexes: '5'}]": {
			`spec.successPolicy.rules[0].succeededIndexes: Invalid value: "5": error parsing succeededIndexes: too ` +
				`large index: "5"`,
		},
		rules + "[{succeededIndexes: '1-a'}]": {
			`spec.successPolicy.rules[0].succeededIndexes: Invalid value: "1-a": error parsing succeededIndexes: ` +
				`cannot convert string to integer for index: "a"`,
		},
		rules + "[{succeededIndexes: '1-2-3'}]": {
			`spec.successPolicy.rules[0].succeededIndexes: Invalid value: "1-2-3": error parsing succeededIndexes: ` +
				`the fragment "1-2-3" violates the requirement that an index interval can have at most two parts ` +
				`separated by '-'`,
		},
		rules + "[{succeededIndexes: '3,1'}]": {
			`spec.successPolicy.rules[0].succeededIndexes: Invalid value: "3,1": error parsing succeededIndexes: ` +
				`non-increasing order, previous: 3, current: 1`,
		},
		rules + "[{succeededIndexes: '3-3'}]": {
			`spec.successPolicy.rules[0].succeededIndexes: Invalid value: "3-3": error parsing succeededIndexes: ` +
				`non-increasing order, previous: 3, current: 3`,
		},
		rules + "[{succeededIndexes: ''}]":      nil,
		rules + list(20, "{succeededCount: 1}"): nil,
		rules + list(21, "{succeededCount: 1}"): {"spec.successPolicy.rules: Too many: 21: must have at most 20 items"},
	})
}
