package batch

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func TestJobNumbers(t *testing.T) {
	job().Create(t, kindtest.Table{
		"":                     nil,
		"spec.parallelism: 0":  nil,
		"spec.parallelism: -1": {"spec.parallelism: Invalid value: -1: must be greater than or equal to 0"},
		"spec.completions: -1": {"spec.completions: Invalid value: -1: must be greater than or equal to 0"},
		"spec.activeDeadlineSeconds: -1": {
			"spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.backoffLimit: -1": {"spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"},
		"spec.ttlSecondsAfterFinished: -1": {
			"spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.ttlSecondsAfterFinished: 0": nil,
		"spec.backoffLimitPerIndex: 1": {
			"spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
		},
		"spec.maxFailedIndexes: 1": {
			"spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
			"spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
		},
		"spec.backoffLimitPerIndex: -1; spec.maxFailedIndexes: -1": {
			"spec.backoffLimitPerIndex: Invalid value: -1: must be greater than or equal to 0",
			"spec.maxFailedIndexes: Invalid value: -1: must be greater than or equal to 0",
			"spec.backoffLimitPerIndex: Invalid value: -1: requires indexed completion mode",
			"spec.maxFailedIndexes: Invalid value: -1: requires indexed completion mode",
		},
		"spec.completionMode: Sorted": {
			`spec.completionMode: Unsupported value: "Sorted": supported values: "NonIndexed", "Indexed"`,
		},
		"spec.managedBy: example.com/queue": nil,
		"spec.managedBy: queue": {
			`spec.managedBy: Invalid value: "queue": must be a domain-prefixed path (such as "acme.io/foo")`,
		},
		"spec.managedBy: kubernetes.io/job-controller": nil,
		"spec.managedBy: example.com/a234567890123456789012345678901234567890123456789012": {
			"spec.managedBy: Too long: may not be more than 63 bytes",
		},
		"spec.managedBy: ''": {"spec.managedBy: Required value"},
	})
}

func TestJobTemplate(t *testing.T) {
	job().Create(t, kindtest.Table{
		"spec.template.spec.restartPolicy: OnFailure": nil,
		"spec.template.spec.restartPolicy: Always": {
			`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`,
		},
		"spec.template.spec.restartPolicy: null": {
			`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`,
		},
		"spec.template.spec.restartPolicy: Sometimes": {
			`spec.template.spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", ` +
				`"OnFailure", "Never"`,
			`spec.template.spec.restartPolicy: Unsupported value: "Sometimes": supported values: "OnFailure", "Never"`,
		},
		"spec.template.spec.containers: []":            {"spec.template.spec.containers: Required value"},
		"spec.template.spec.containers[0].image: null": {"spec.template.spec.containers[0].image: Required value"},
		"spec.template.spec.activeDeadlineSeconds: 5":  nil,
		"metadata.name: Pi": {
			`metadata.name: Invalid value: "Pi": a lowercase RFC 1123 subdomain must...`,
		},
	})
}

func TestIndexedJobs(t *testing.T) {
	job().With(t, "spec.completionMode: Indexed; spec.completions: 5; spec.parallelism: 2").Create(t, kindtest.Table{
		"":                         nil,
		"spec.completions: null":   {"spec.completions: Required value: when completion mode is Indexed"},
		"spec.parallelism: 100000": nil,
		"spec.parallelism: 100001": {
			"spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is " +
				"Indexed",
		},
		"spec.backoffLimitPerIndex: 0; spec.maxFailedIndexes: 5": nil,
		"spec.maxFailedIndexes: 5": {
			"spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
		},
		"spec.backoffLimitPerIndex: 1; spec.maxFailedIndexes: 6": {
			"spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions",
		},
		"spec.backoffLimitPerIndex: 1; spec.maxFailedIndexes: 100001; spec.completions: 200000": {
			"spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
			"spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 when completions " +
				"are above 100000 and used with backoff limit per index",
		},
		"spec.backoffLimitPerIndex: 1; spec.completions: 100000": nil,
		"spec.backoffLimitPerIndex: 1; spec.completions: 100001": {
			"spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
		},
		"spec.backoffLimitPerIndex: 1; spec.completions: 100001; spec.maxFailedIndexes: 10000; " +
			"spec.parallelism: 10000": nil,
		"spec.backoffLimitPerIndex: 1; spec.completions: 100001; spec.maxFailedIndexes: 10001; spec.parallelism: " +
			"10001": {
			"spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are " +
				"above 100000 and used with backoff limit per index",
			"spec.maxFailedIndexes: Invalid value: 10001: must be less than or equal to 10000 when completions are " +
				"above 100000 and used with backoff limit per index",
		},
		"spec.completions: 100001; spec.parallelism: 100000": nil,
		// The name of the last pod has to be one, and its hostname a label of DNS.
		"metadata.name: a.b": {
			`metadata.name: Invalid value: "a.b": will not able to create pod with invalid DNS label: a.b-4`,
		},
		"metadata.name: a.b; spec.completions: 0":                                      nil,
		"metadata.name: a23456789012345678901234567890123456789012345678901234567890x": nil,
		"metadata.name: a23456789012345678901234567890123456789012345678901234567890xy; spec.completions: 10": {
			`metadata.name: Invalid value: "a23456789012345678901234567890123456789012345678901234567890xy": will ` +
				`not able to create pod with invalid DNS label: ` +
				`a23456789012345678901234567890123456789012345678901234567890xy-9`,
		},
	})
}

func TestJobSelector(t *testing.T) {
	const name, uid = "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"
	job().Stored(t, "create", kindtest.Table{
		"": {
			`spec.selector.matchLabels["` + uid + `"]: u1`,
			`spec.template.metadata.labels["` + uid + `"]: u1`, `spec.template.metadata.labels["` + name + `"]: pi`,
			"spec.template.metadata.labels.controller-uid: u1", "spec.template.metadata.labels.job-name: pi",
			"metadata.labels.job-name: pi", // those of the template
		},
		"spec.template.metadata.labels.a: b": {"metadata.labels.a: b", "metadata.labels.job-name: pi"},
		"metadata.labels.c: d":               {"metadata.labels.c: d", "metadata.labels.job-name: null"},
	})
	job().Create(t, kindtest.Table{
		"spec.selector.matchLabels: {a: b}": {
			"spec.selector: Invalid value: " +
				"{\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u1\"}}: `selector` not " +
				"auto-generated",
			"spec.template.metadata.labels: Invalid value: " +
				"{\"batch.kubernetes.io/controller-uid\":\"u1\",\"batch.kubernetes." +
				"io/job-name\":\"pi\",\"controller-ui" +
				"d\":\"u1\",\"job-name\":\"pi\"}: `selector` does not match template `labels`",
		},
		"spec.template.metadata.labels.job-name: other": {
			`spec.template.metadata.labels[job-name]: Invalid value: ` +
				`{"batch.kubernetes.io/controller-uid":"u1","batch.kubernetes.` +
				`io/job-name":"pi","controller-uid":"u1","` +
				`job-name":"other"}: must be 'pi'`,
		},
		"spec.template.metadata.labels.controller-uid: other": {
			`spec.template.metadata.labels[controller-uid]: Invalid value: ` +
				`{"batch.kubernetes.io/controller-uid":"u1","batch.kubernetes.` +
				`io/job-name":"pi","controller-uid":"other` +
				`","job-name":"pi"}: must be 'u1'`,
		},
		`spec.template.metadata.labels["` + name + `"]: other`: {
			`spec.template.metadata.labels[batch.kubernetes.io/job-name]: Invalid value: ` +
				`{"batch.kubernetes.io/controller-uid":"u1","batch.kubernetes.` +
				`io/job-name":"other","controller-uid":"u1` +
				`","job-name":"pi"}: must be 'pi'`,
		},
		`spec.selector.matchLabels["` + uid + `"]: other`: {
			"spec.selector: Invalid value: {\"matchLabels\":{\"batch.kubernetes.io/controller-uid\":\"other\"}}: " +
				"`selector` not auto-generated",
			"spec.template.metadata.labels: Invalid value: " +
				"{\"batch.kubernetes.io/controller-uid\":\"u1\",\"batch.kubernetes." +
				"io/job-name\":\"pi\",\"controller-ui" +
				"d\":\"u1\",\"job-name\":\"pi\"}: `selector` does not match template `labels`",
		},
		"spec.manualSelector: true": {
			"spec.selector: Required value",
			"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
		},
	})
	selfMade().Create(t, kindtest.Table{
		"": nil,
		"spec.selector: null": {
			"spec.selector: Required value",
			"spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
		},
		"spec.selector.matchLabels.a: c": {
			"spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
		},
		"spec.selector.matchLabels.a: '!'": {`spec.selector.matchLabels: Invalid value: "!": a valid label must...`},
		"spec.selector: {matchExpressions: [{key: a, operator: Like}]}": {
			`spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`,
		},
		"spec.selector: {}": nil, // selects all, as upstream lets it
	})
	selfMade().Stored(t, "create", kindtest.Table{
		"": {"spec.selector.matchLabels: {a: b}", "spec.template.metadata.labels: {a: b}", "metadata.labels: {a: b}"},
	})
}

func TestJobDefaults(t *testing.T) {
	job().Stored(t, "create", kindtest.Table{
		"": {
			"spec.completions: 1", "spec.parallelism: 1", "spec.backoffLimit: 6", "spec.completionMode: NonIndexed",
			"spec.suspend: false", "spec.podReplacementPolicy: TerminatingOrFailed", "spec.manualSelector: false",
			"metadata.generation: 1",
		},
		"spec.parallelism: 3": {"spec.completions: null"},
		"spec.completions: 3": {"spec.parallelism: 1"},
		"spec.completionMode: Indexed; spec.backoffLimitPerIndex: 1": {"spec.backoffLimit: 2147483647"},
		"spec.podFailurePolicy.rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]": {
			"spec.podReplacementPolicy: Failed", "spec.podFailurePolicy.rules[0].onPodConditions[0].status: 'True'",
		},
		"status: {active: 3}": {"status.active: null"},
	})
}

func TestJobWarnings(t *testing.T) {
	const many = "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than " +
		"10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
	job().With(t, "spec.completionMode: Indexed; spec.completions: 100001; spec.parallelism: 10001").
		Warnings(t, "create", kindtest.Table{
			"":                                {many},
			"spec.completions: 100000":        nil,
			"spec.parallelism: 10000":         nil,
			"spec.completionMode: NonIndexed": nil,
		})
	job().Warnings(t, "create", kindtest.Table{"metadata.name: a.b": {
		"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a " +
			"DNS label is recommended: [must not contain dots]",
	}})
}
