package apps

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func deployment() kindtest.Fixture {
	return kindtest.Fixture{Kind: deployments(api.Deps{}), Object: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
`}
}

func TestDeploymentValidation(t *testing.T) {
	deployment().Create(t, kindtest.Table{
		"":                         nil,
		"spec.replicas: 0":         nil,
		"spec.paused: true":        nil,
		"spec.replicas: -1":        {"spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
		"spec.minReadySeconds: -1": {"spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"},
		"spec.revisionHistoryLimit: -1": {
			"spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.progressDeadlineSeconds: -1": {
			"spec.progressDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
			"spec.progressDeadlineSeconds: Invalid value: -1: must be greater than minReadySeconds",
		},
		"spec.minReadySeconds: 600": {
			"spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
		},
		"spec.minReadySeconds: 599": nil,
		"spec.selector: null": {
			"spec.selector: Required value",
			"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template " +
				"`labels`",
		},
		"spec.selector: {}": {"spec.selector: Invalid value: {}: empty selector is invalid for deployment"},
		"spec.selector.matchLabels.app: other": {
			"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template " +
				"`labels`",
		},
		"spec.selector.matchLabels.app: a b": {
			`spec.selector.matchLabels: Invalid value: "a b": a valid label must...`,
			`spec.selector: Invalid value: {"matchLabels":{"app":"a b"}}: invalid label selector`,
		},
		"spec.selector: {matchExpressions: [{key: app, operator: Near, values: [web]}]}": {
			`spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`,
			`spec.selector: Invalid value: ` +
				`{"matchExpressions":[{"key":"app","operator":"Near","values":["web"]}]}: invalid label selector`,
		},
		"spec.selector: {matchExpressions: [{key: app, operator: In}]}": {
			"spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' " +
				"or 'NotIn'",
			`spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"In"}]}: invalid label ` +
				`selector`,
		},
		"spec.selector: {matchExpressions: [{key: app, operator: Exists, values: [web]}]}": {
			"spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' " +
				"or 'DoesNotExist'",
			`spec.selector: Invalid value: ` +
				`{"matchExpressions":[{"key":"app","operator":"Exists","values":["web"]}]}: invalid label selector`,
		},
		"spec.selector: {matchExpressions: [{key: app, operator: In, values: [web, api]}]}": nil,
		"spec.template.metadata.labels: null": {
			"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
		},
		"spec.template.spec.restartPolicy: Never": {
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
		},
		"spec.template.spec.activeDeadlineSeconds: 5": {
			"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
		},
		"spec.template.spec.containers: []": {"spec.template.spec.containers: Required value"},
		"spec.template.spec.containers[0].name: A": {
			`spec.template.spec.containers[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist...`,
		},
		`metadata.annotations["deprecated.deployment.rollback.to"]: "-1"`: {
			"spec.rollback.version: Invalid value: -1: must be greater than or equal to 0",
		},
		"metadata.name: Web":       {"metadata.name: Invalid value: \"Web\": a lowercase RFC 1123 subdomain must..."},
		"metadata.namespace: null": {"metadata.namespace: Required value"},
	})
}

func TestDeploymentStrategy(t *testing.T) {
	deployment().Create(t, kindtest.Table{
		"spec.strategy: {type: Recreate}": nil,
		"spec.strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}": {
			"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
		},
		"spec.strategy: {type: Slow}": {
			`spec.strategy: Unsupported value: {"Type":"Slow","RollingUpdate":null}: supported values: "Recreate", ` +
				`"RollingUpdate"`,
		},
		"spec.strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}": {
			"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
		},
		"spec.strategy: {rollingUpdate: {maxSurge: 0%, maxUnavailable: 0}}": {
			"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
		},
		"spec.strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}": {
			"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
		},
		"spec.strategy: {rollingUpdate: {maxSurge: 200%, maxUnavailable: 0}}": nil,
		"spec.strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 100%}}": nil,
		"spec.strategy: {rollingUpdate: {maxUnavailable: 101%}}": {
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`,
		},
		"spec.strategy: {rollingUpdate: {maxUnavailable: '2.5'}}": {
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "2.5": a valid percent string must be a ` +
				`numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is ` +
				`'[0-9]+%')`,
		},
		"spec.strategy: {rollingUpdate: {maxUnavailable: many}}": {
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "many": a valid percent string must be a ` +
				`numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is ` +
				`'[0-9]+%')`,
		},
		"spec.strategy: {rollingUpdate: {maxUnavailable: -1}}": {
			"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.strategy: {rollingUpdate: {maxSurge: -1}}": {
			"spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.strategy: {rollingUpdate: {maxSurge: '5.'}}": {
			`spec.strategy.rollingUpdate.maxSurge: Invalid value: "5.": a valid percent string must be a numeric ` +
				`string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`,
		},
	})
}

func TestDeploymentDefaults(t *testing.T) {
	deployment().Stored(t, "create", kindtest.Table{
		"": {
			"spec.replicas: 1", "spec.revisionHistoryLimit: 10", "spec.progressDeadlineSeconds: 600",
			"spec.strategy.type: RollingUpdate", "spec.strategy.rollingUpdate.maxSurge: 25%",
			"spec.strategy.rollingUpdate.maxUnavailable: 25%", "spec.template.spec.restartPolicy: Always",
			"metadata.generation: 1", "spec.minReadySeconds: null", "spec.paused: null",
		},
		"spec.strategy: {type: Recreate}":                {"spec.strategy.rollingUpdate: null"},
		"spec.strategy: {rollingUpdate: {maxSurge: 0}}":  {"spec.strategy.rollingUpdate.maxUnavailable: 25%"},
		"status: {replicas: 5, observedGeneration: 3}":   {"status.replicas: null", "status.observedGeneration: null"},
		"spec.replicas: 0; spec.revisionHistoryLimit: 0": {"spec.replicas: 0", "spec.revisionHistoryLimit: 0"},
		"metadata.generation: 9":                         {"metadata.generation: 1"},
	})
}

func TestDeploymentUpdate(t *testing.T) {
	d := deployment().With(t, "metadata.generation: 3; status: {replicas: 2}")
	d.Update(t, kindtest.Table{
		"spec.replicas: 7": nil,
		"spec.selector.matchLabels: {app: api}; spec.template.metadata.labels: {app: api}": {
			`spec.selector: Invalid value: {"matchLabels":{"app":"api"}}: field is immutable`,
		},
		"spec.replicas: -3": {"spec.replicas: Invalid value: -3: must be greater than or equal to 0"},
		"spec.template.metadata.labels.app: api": {
			"spec.template.metadata.labels: Invalid value: {\"app\":\"api\"}: `selector` does not match template " +
				"`labels`",
		},
		"metadata.name: other": nil, // which the registry checks with all that metadata is
	})
	d.Stored(t, "update", kindtest.Table{
		"spec.replicas: 7":                            {"metadata.generation: 4", "status.replicas: 2"},
		"metadata.labels.a: b":                        {"metadata.generation: 3"},
		"metadata.annotations.a: b":                   {"metadata.generation: 4"}, // replica sets have it, too
		"status.replicas: 9":                          {"metadata.generation: 3", "status.replicas: 2"},
		"spec.replicas: 7; metadata.annotations.a: b": {"metadata.generation: 4"},
	})
}

func TestDeploymentStatus(t *testing.T) {
	full := deployment().With(t, "status: {replicas: 3, updatedReplicas: 3, readyReplicas: 2, availableReplicas: 2, "+
		"collisionCount: 2}")
	full.Subresource(t, "status", kindtest.Table{
		"": nil,
		"status.replicas: -1": {
			"status.replicas: Invalid value: -1: must be greater than or equal to 0",
			"status.updatedReplicas: Invalid value: 3: cannot be greater than status.replicas",
			"status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
			"status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas",
		},
		"status.updatedReplicas: 4": {
			"status.updatedReplicas: Invalid value: 4: cannot be greater than status.replicas",
		},
		"status.readyReplicas: 4": {"status.readyReplicas: Invalid value: 4: cannot be greater than status.replicas"},
		"status.availableReplicas: 3": {
			"status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
		},
		"status.availableReplicas: 4": {
			"status.availableReplicas: Invalid value: 4: cannot be greater than status.replicas",
			"status.availableReplicas: Invalid value: 4: cannot be greater than readyReplicas",
		},
		"status.updatedReplicas: -1": {
			"status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0",
		},
		"status.readyReplicas: -1; status.availableReplicas: -1": {
			"status.readyReplicas: Invalid value: -1: must be greater than or equal to 0",
			"status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
		},
		"status.unavailableReplicas: -1": {
			"status.unavailableReplicas: Invalid value: -1: must be greater than or equal to 0",
		},
		"status.terminatingReplicas: -1": {
			"status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0",
		},
		"status.observedGeneration: -1": {
			"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
		},
		"status.collisionCount: 1":    {"status.collisionCount: Invalid value: 1: cannot be decremented"},
		"status.collisionCount: null": {"status.collisionCount: Invalid value: 0: cannot be decremented"},
		"status.collisionCount: 3":    nil,
		"status.collisionCount: -1": {
			"status.collisionCount: Invalid value: -1: must be greater than or equal to 0",
			"status.collisionCount: Invalid value: -1: cannot be decremented",
		},
	})
	full.Stored(t, "status", kindtest.Table{
		"spec.replicas: 9; status.replicas: 5":                           {"spec.replicas: 1", "status.replicas: 5"},
		"metadata.labels.a: b":                                           {"metadata.labels: null"},
		"metadata.annotations.a: b":                                      {"metadata.annotations.a: b"},
		`metadata.annotations["deprecated.deployment.rollback.to"]: "5"`: {"metadata.annotations: null"},
	})
}

func TestDeploymentCells(t *testing.T) {
	deployment().Cells(t, kindtest.Table{
		"": {"web", "0/1", "0", "0", "24h", "c", "nginx", "app=web"},
		"spec.replicas: 3; status: {readyReplicas: 2, updatedReplicas: 3, availableReplicas: 1}": {
			"web", "2/3", "3", "1", "24h", "c", "nginx", "app=web",
		},
		"spec.selector: null; spec.template.spec.containers: [{name: a, image: x}, {name: b, image: z}]": {
			"web", "0/1", "0", "0", "24h", "a,b", "x,z", "<none>",
		},
	})
}

func TestDeploymentWarnings(t *testing.T) {
	deployment().Warnings(t, "create", kindtest.Table{
		"": nil,
		"metadata.name: a.b": {
			"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a " +
				"DNS label is recommended: [must not contain dots]",
		},
		`spec.template.spec.nodeSelector["beta.kubernetes.io/os"]: linux`: {
			`spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use ` +
				`"kubernetes.io/os" instead`,
		},
		"spec.template.spec.containers: [{name: c, image: i, env: [{name: A, value: x}, {name: A, value: z}]}]": {
			`spec.template.spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when ` +
				`using apply`,
		},
	})
	deployment().Warnings(t, "update", kindtest.Table{
		// The generation tells whether the spec changed: of what was accepted once there is no second warning.
		"metadata.generation: 1; spec.template.spec.nodeSelector: {beta.kubernetes.io/os: linux}" +
			" => metadata.labels.a: b": nil,
		`metadata.generation: 1 => spec.template.spec.nodeSelector: {beta.kubernetes.io/os: linux}`: {
			`spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use ` +
				`"kubernetes.io/os" instead`,
		},
	})
}

func TestDeploymentScale(t *testing.T) {
	f := deployment()
	obj, _ := kindtest.Decode(t, f.Kind, kindtest.Parse(t, f.With(t, "status.replicas: 4").Object))
	scale := f.Kind.Subresource("scale").Scale
	scale.Set(obj, 9)
	spec, status := scale.Get(obj)
	if spec.Replicas != 9 || status.Replicas != 4 || status.Selector != "app=web" {
		t.Errorf("got %v, %v", spec, status)
	}
}
