package apps

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func controllerRevision() kindtest.Fixture {
	return kindtest.Fixture{Kind: controllerRevisions(), Object: `
apiVersion: apps/v1
kind: ControllerRevision
metadata: {name: db-5d4f, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
revision: 3
data: {spec: {template: {}}}
`}
}

func TestRevisionValidation(t *testing.T) {
	controllerRevision().Create(t, kindtest.Table{
		"":             nil,
		"revision: 0":  nil,
		"revision: -1": {"revision: Invalid value: -1: must be greater than or equal to 0"},
		"data: null":   {"data: Required value: data is mandatory"},
		"data: []":     {"data: Required value: data must be a valid JSON object"},
		"data: text":   {"data: Required value: data must be a valid JSON object"},
		"data: {}":     nil,
		"metadata.name: A; revision: -1": {
			`metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must...`,
			"revision: Invalid value: -1: must be greater than or equal to 0",
		},
	})
	controllerRevision().Update(t, kindtest.Table{
		"revision: 4":  nil,
		"revision: 1":  nil,
		"revision: -4": {"revision: Invalid value: -4: must be greater than or equal to 0"},
		"data.spec.template.metadata: {}": {
			`data: Invalid value: {"spec":{"template":{"metadata":{}}}}: field is immutable`,
		},
	})
}

func TestRevisionCells(t *testing.T) {
	controllerRevision().Cells(t, kindtest.Table{
		"": {"db-5d4f", "<none>", "3", "24h"},
		"metadata.ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u, controller: true}]": {
			"db-5d4f", "statefulset.apps/db", "3", "24h",
		},
		"metadata.ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]": {
			"db-5d4f", "pod/p", "3", "24h",
		},
		"metadata.ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u}]": {
			"db-5d4f", "<none>", "3", "24h",
		},
	})
}
