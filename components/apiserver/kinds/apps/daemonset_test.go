package apps

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func daemonSet() kindtest.Fixture {
	return kindtest.Fixture{Kind: daemonSets(api.Deps{}), Object: `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: agent:1}]}
`}
}

func TestDaemonSetValidation(t *testing.T) {
	daemonSet().Create(t, kindtest.Table{
		"":                         nil,
		"spec.minReadySeconds: -1": {"spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"},
		"spec.revisionHistoryLimit: -1": {
			"spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.selector: {}": {"spec.selector: Invalid value: {}: empty selector is invalid for daemonset"},
		"spec.selector: null": {
			"spec.template.metadata.labels: Invalid value: {\"app\":\"agent\"}: `selector` does not match template " +
				"`labels`",
		},
		"spec.selector.matchLabels.app: other": {
			"spec.template.metadata.labels: Invalid value: {\"app\":\"agent\"}: `selector` does not match template " +
				"`labels`",
		},
		"spec.selector.matchLabels.app: a b": {
			`spec.selector.matchLabels: Invalid value: "a b": a valid label must...`,
		},
		"spec.template.spec.restartPolicy: OnFailure": {
			`spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"`,
		},
		"spec.template.spec.activeDeadlineSeconds: 1": {
			"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
		},
		"spec.template.spec.containers: []": {"spec.template.spec.containers: Required value"},
		"spec.template.spec.containers[0].ports: [{containerPort: 80, hostPort: 80}, {containerPort: 81, " +
			"hostPort: 80}]": {"spec.template.spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""},
		"metadata.name: Agent": {`metadata.name: Invalid value: "Agent": a lowercase RFC 1123 subdomain must...`},
	})
}

func TestDaemonSetUpdateStrategy(t *testing.T) {
	daemonSet().Create(t, kindtest.Table{
		"spec.updateStrategy: {type: OnDelete}":                                     nil,
		"spec.updateStrategy: {type: OnDelete, rollingUpdate: {maxUnavailable: 0}}": nil, // which no rule checks
		"spec.updateStrategy: {type: Recreate}": {
			`spec.updateStrategy: Unsupported value: {"Type":"Recreate","RollingUpdate":null}: supported values: ` +
				`"RollingUpdate", "OnDelete"`,
		},
		"spec.updateStrategy.rollingUpdate: {maxUnavailable: 0}": {
			"spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
		},
		"spec.updateStrategy.rollingUpdate: {maxUnavailable: 0, maxSurge: 1}": nil,
		"spec.updateStrategy.rollingUpdate: {maxSurge: 1}": {
			"spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is " +
				"non-zero",
		}, // as maxUnavailable is 1 by default
		"spec.updateStrategy.rollingUpdate: {maxSurge: 10%, maxUnavailable: 10%}": {
			`spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "10%": may not be set when maxUnavailable ` +
				`is non-zero`,
		},
		"spec.updateStrategy.rollingUpdate: {maxSurge: 0%, maxUnavailable: 10%}": nil,
		"spec.updateStrategy.rollingUpdate: {maxUnavailable: 101%}": {
			`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`,
		},
		"spec.updateStrategy.rollingUpdate: {maxUnavailable: 0, maxSurge: 101%}": {
			`spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "101%": must not be greater than 100%`,
		},
		"spec.updateStrategy.rollingUpdate: {maxUnavailable: -1}": {
			"spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.updateStrategy.rollingUpdate: {maxUnavailable: few}": {
			`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "few": a valid percent string must ` +
				`be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is ` +
				`'[0-9]+%')`,
			"spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
		},
		"spec.updateStrategy.rollingUpdate: {maxUnavailable: 0, maxSurge: few}": {
			`spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "few": a valid percent string must be a ` +
				`numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is ` +
				`'[0-9]+%')`,
			"spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
		},
	})
}

func TestDaemonSetDefaults(t *testing.T) {
	daemonSet().Stored(t, "create", kindtest.Table{
		"": {
			"spec.updateStrategy.type: RollingUpdate", "spec.updateStrategy.rollingUpdate.maxUnavailable: 1",
			"spec.updateStrategy.rollingUpdate.maxSurge: 0", "spec.revisionHistoryLimit: 10", "metadata.generation: 1",
			`metadata.annotations["deprecated.daemonset.template.generation"]: '1'`,
		},
		"spec.updateStrategy.type: OnDelete": {"spec.updateStrategy.rollingUpdate: null"},
		"status.desiredNumberScheduled: 3":   {"status.desiredNumberScheduled: 0"},
		`metadata.annotations["deprecated.daemonset.template.generation"]: '-4'`: {
			`metadata.annotations["deprecated.daemonset.template.generation"]: '1'`,
		},
		`metadata.annotations["deprecated.daemonset.template.generation"]: '7'`: {
			`metadata.annotations["deprecated.daemonset.template.generation"]: '7'`,
		},
	})
}

func TestDaemonSetUpdate(t *testing.T) {
	const generation = `metadata.annotations["deprecated.daemonset.template.generation"]`
	set := daemonSet().With(t, "metadata.generation: 2; status.numberReady: 3; "+generation+": '5'")
	set.Update(t, kindtest.Table{
		"spec.minReadySeconds: 4": nil,
		"spec.selector.matchLabels: {app: other}; spec.template.metadata.labels: {app: other}": {
			`spec.selector: Invalid value: {"matchLabels":{"app":"other"}}: field is immutable`,
		},
		"spec.minReadySeconds: -4": {"spec.minReadySeconds: Invalid value: -4: must be greater than or equal to 0"},
		"spec.template.metadata.labels: {app: other}": {
			"spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: `selector` does not match template " +
				"`labels`",
		},
		generation + ": '9'": nil,
	})
	set.Stored(t, "update", kindtest.Table{
		"spec.template.spec.containers[0].image: agent:2": {generation + ": '6'", "metadata.generation: 3"},
		"spec.minReadySeconds: 4":                         {generation + ": '5'", "metadata.generation: 3"},
		generation + ": '9'":                              {generation + ": '5'", "metadata.generation: 2"},
		"status.numberReady: 9":                           {"status.numberReady: 3", "metadata.generation: 2"},
	})
	set.Stored(t, "status", kindtest.Table{
		"spec.minReadySeconds: 4; status.numberReady: 9": {"spec.minReadySeconds: null", "status.numberReady: 9"},
		generation + ": '9'; metadata.labels.a: b":       {generation + ": '5'", "metadata.labels.a: b"},
	})
}

func TestDaemonSetStatus(t *testing.T) {
	daemonSet().With(t, "status: {collisionCount: 1}").Subresource(t, "status", kindtest.Table{
		"":                         nil,
		"status.collisionCount: 0": {"status.collisionCount: Invalid value: 0: cannot be decremented"},
		"status.collisionCount: -1": {
			"status.collisionCount: Invalid value: -1: must be greater than or equal to 0",
			"status.collisionCount: Invalid value: -1: cannot be decremented",
		},
		"status: {currentNumberScheduled: -1, numberMisscheduled: -1, desiredNumberScheduled: -1, numberReady: -1, " +
			"collisionCount: 1}": {
			"status.currentNumberScheduled: Invalid value: -1: must be greater than or equal to 0",
			"status.numberMisscheduled: Invalid value: -1: must be greater than or equal to 0",
			"status.desiredNumberScheduled: Invalid value: -1: must be greater than or equal to 0",
			"status.numberReady: Invalid value: -1: must be greater than or equal to 0",
		},
		"status: {observedGeneration: -1, updatedNumberScheduled: -1, numberAvailable: -1, numberUnavailable: -1, " +
			"collisionCount: 1}": {
			"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
			"status.updatedNumberScheduled: Invalid value: -1: must be greater than or equal to 0",
			"status.numberAvailable: Invalid value: -1: must be greater than or equal to 0",
			"status.numberUnavailable: Invalid value: -1: must be greater than or equal to 0",
		},
	})
}

func TestDaemonSetCells(t *testing.T) {
	daemonSet().Cells(t, kindtest.Table{
		"": {"agent", "0", "0", "0", "0", "0", "<none>", "24h", "c", "agent:1", "app=agent"},
		"status: {desiredNumberScheduled: 1, currentNumberScheduled: 2, numberReady: 3, updatedNumberScheduled: 4, " +
			"numberAvailable: 5}; spec.template.spec.nodeSelector: {a: b, c: d}": {
			"agent", "1", "2", "3", "4", "5", "a=b,c=d", "24h", "c", "agent:1", "app=agent",
		},
	})
}

// TestTemplateGeneration: an annotation that is no number makes an object unreadable.
func TestTemplateGeneration(t *testing.T) {
	f := daemonSet()
	for text, refused := range map[string]bool{"3": false, "x": true, "": true, "9223372036854775808": true} {
		content := kindtest.Change(t, kindtest.Parse(t, f.Object), map[string]any{
			`metadata.annotations["deprecated.daemonset.template.generation"]`: text})
		obj, version := kindtest.Decode(t, f.Kind, content)
		if err := version.Check(obj); (err != nil) != refused {
			t.Errorf("%q: %v", text, err)
		}
	}
}
