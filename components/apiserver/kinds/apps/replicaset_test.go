package apps

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func replicaSet() kindtest.Fixture {
	return kindtest.Fixture{Kind: replicaSets(api.Deps{}), Object: `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
`}
}

func TestReplicaSetValidation(t *testing.T) {
	replicaSet().Create(t, kindtest.Table{
		"":                 nil,
		"spec.replicas: 0": nil,
		"spec.replicas: -1; spec.minReadySeconds: -1": {
			"spec.replicas: Invalid value: -1: must be greater than or equal to 0",
			"spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
		},
		// as deployments are told
		"spec.selector: {}": {"spec.selector: Invalid value: {}: empty selector is invalid for deployment"},
		"spec.selector: null": {
			"spec.selector: Required value",
			"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template " +
				"`labels`",
		},
		"spec.selector.matchLabels.app: '-'": {
			`spec.selector.matchLabels: Invalid value: "-": a valid label must...`,
			`spec.selector: Invalid value: {"matchLabels":{"app":"-"}}: invalid label selector`,
		},
		"spec.template.metadata.labels.app: api": {
			"spec.template.metadata.labels: Invalid value: {\"app\":\"api\"}: `selector` does not match template " +
				"`labels`",
		},
		"spec.template.spec.restartPolicy: OnFailure": {
			`spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"`,
		},
		"spec.template.spec.activeDeadlineSeconds: 1": {
			"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not " +
				"Supported",
		},
		"spec.template.spec.containers[0].image: ''": {"spec.template.spec.containers[0].image: Required value"},
		"spec.template: null": {
			"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
			"spec.template.spec.containers: Required value",
		},
		"metadata.name: a_b": {`metadata.name: Invalid value: "a_b": a lowercase RFC 1123 subdomain must...`},
	})
	replicaSet().Stored(t, "create", kindtest.Table{
		"": {
			"spec.replicas: 1",
			"spec.template.spec.restartPolicy: Always",
			"metadata.generation: 1",
		},
		"spec.replicas: 0; status.replicas: 7": {"spec.replicas: 0", "status.replicas: 0"},
	})
}

func TestReplicaSetUpdate(t *testing.T) {
	set := replicaSet().With(t, "metadata.generation: 2; status: {replicas: 4}")
	set.Update(t, kindtest.Table{
		"spec.replicas: 3":  nil,
		"spec.replicas: -1": {"spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
		"spec.selector.matchLabels: {app: web, tier: front}; spec.template.metadata.labels.tier: front": {
			`spec.selector: Invalid value: {"matchLabels":{"app":"web","tier":"front"}}: field is immutable`,
		},
		"spec.template.metadata.labels.tier: front": nil,
	})
	set.Stored(t, "update", kindtest.Table{
		"spec.replicas: 3": {"metadata.generation: 3"},
		"metadata.annotations.a: b; status.replicas: 1": {"metadata.generation: 2", "status.replicas: 4"},
	})
	set.Warnings(t, "create", kindtest.Table{"": nil, "metadata.name: web.v1": {
		"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a " +
			"DNS label is recommended: [must not contain dots]",
	}})
}

func TestReplicaSetStatus(t *testing.T) {
	set := replicaSet().With(t, "status: {replicas: 3, fullyLabeledReplicas: 3, readyReplicas: 2, "+
		"availableReplicas: 1}")
	set.Subresource(t, "status", kindtest.Table{
		"": nil,
		"status.replicas: 2": {
			"status.fullyLabeledReplicas: Invalid value: 3: cannot be greater than status.replicas",
		},
		"status.readyReplicas: 4": {"status.readyReplicas: Invalid value: 4: cannot be greater than status.replicas"},
		"status.availableReplicas: 3": {
			"status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
		},
		"status.availableReplicas: 4": {
			"status.availableReplicas: Invalid value: 4: cannot be greater than status.replicas",
			"status.availableReplicas: Invalid value: 4: cannot be greater than readyReplicas",
		},
		"status: {fullyLabeledReplicas: -1, readyReplicas: -1, availableReplicas: -1, replicas: -1}": {
			"status.replicas: Invalid value: -1: must be greater than or equal to 0",
			"status.fullyLabeledReplicas: Invalid value: -1: must be greater than or equal to 0",
			"status.readyReplicas: Invalid value: -1: must be greater than or equal to 0",
			"status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
		},
		"status.observedGeneration: -1; status.terminatingReplicas: -1": {
			"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
			"status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0",
		},
		"status.terminatingReplicas: 9": nil,
	})
	set.Stored(t, "status", kindtest.Table{
		"spec.replicas: 5; status.readyReplicas: 3": {"spec.replicas: 1", "status.readyReplicas: 3"},
		"metadata.labels.a: b":                      {"metadata.labels.a: b"},
	})
}

func TestReplicaSetCells(t *testing.T) {
	replicaSet().Cells(t, kindtest.Table{
		"": {"web", "1", "0", "0", "24h", "c", "nginx", "app=web"},
		"spec.replicas: 5; status: {replicas: 4, readyReplicas: 3}; metadata.creationTimestamp: null": {
			"web", "5", "4", "3", "<unknown>", "c", "nginx", "app=web",
		},
	})
}

func TestReplicaSetScale(t *testing.T) {
	f := replicaSet()
	obj, _ := kindtest.Decode(t, f.Kind, kindtest.Parse(t, f.With(t, "status.replicas: 4").Object))
	scale := f.Kind.Subresource("scale").Scale
	scale.Set(obj, 0)
	if spec, status := scale.Get(obj); spec.Replicas != 0 || status.Replicas != 4 || status.Selector != "app=web" {
		t.Errorf("got %v, %v", spec, status)
	}
}
