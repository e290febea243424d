package storage

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func csiDriver() kindtest.Fixture {
	return kindtest.Fixture{Kind: csiDrivers(), Object: `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: disk.example.com, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {}
`}
}

func TestCSIDriverValidation(t *testing.T) {
	const tokens = "spec.tokenRequests: "
	csiDriver().Create(t, kindtest.Table{
		"":                         nil,
		"metadata.name: Disk":      {`metadata.name: Invalid value: "Disk": a lowercase RFC 1123 subdomain must...`},
		"spec.fsGroupPolicy: File": nil,
		"spec.fsGroupPolicy: Some": {
			`spec.fsGroupPolicy: Unsupported value: "Some": supported values: "File", "None", ` +
				`"ReadWriteOnceWithFSType"`,
		},
		"spec.volumeLifecycleModes: [Persistent, Ephemeral]": nil,
		"spec.volumeLifecycleModes: [Eternal, Persistent]": {
			`spec.volumeLifecycleModes: Unsupported value: "Eternal": supported values: "Persistent", "Ephemeral"`,
		},
		tokens + "[{audience: ''}, {audience: a, expirationSeconds: 600}]": nil,
		tokens + "[{audience: a}, {audience: a}]": {
			`spec.tokenRequests[1].audience: Duplicate value: "a"`,
		},
		tokens + "[{audience: a, expirationSeconds: 599}]": {
			"spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 " +
				"minutes",
		},
		tokens + "[{audience: a, expirationSeconds: 4294967296}]": nil,
		tokens + "[{audience: a, expirationSeconds: 4294967297}]": {
			"spec.tokenRequests[0].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger " +
				"than 2^32 seconds",
		},
		"spec.nodeAllocatableUpdatePeriodSeconds: 10": nil,
		"spec.nodeAllocatableUpdatePeriodSeconds: 9": {
			"spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
		},
		"spec.serviceAccountTokenInSecrets: true": {
			"spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no " +
				"tokenRequests are specified",
		},
		"spec.serviceAccountTokenInSecrets: false": {
			"spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is set but no " +
				"tokenRequests are specified",
		},
		"spec.serviceAccountTokenInSecrets: true; " + tokens + "[{audience: a}]": nil,
	})
}

func TestCSIDriverDefaults(t *testing.T) {
	csiDriver().Stored(t, "create", kindtest.Table{
		"": {
			"spec.attachRequired: true", "spec.podInfoOnMount: false", "spec.storageCapacity: false",
			"spec.fsGroupPolicy: ReadWriteOnceWithFSType", "spec.volumeLifecycleModes: [Persistent]",
			"spec.requiresRepublish: false", "spec.seLinuxMount: false", "spec.tokenRequests: null",
		},
		"spec: {attachRequired: false, podInfoOnMount: true, storageCapacity: true, requiresRepublish: true, " +
			"seLinuxMount: true, fsGroupPolicy: None, volumeLifecycleModes: [Ephemeral]}": {
			"spec.attachRequired: false", "spec.podInfoOnMount: true", "spec.storageCapacity: true",
			"spec.requiresRepublish: true", "spec.seLinuxMount: true", "spec.fsGroupPolicy: None",
			"spec.volumeLifecycleModes: [Ephemeral]",
		},
		"spec.preventPodSchedulingIfMissing: true": {"spec.preventPodSchedulingIfMissing: null"}, // its gate is off
	})
}

func TestCSIDriverUpdate(t *testing.T) {
	csiDriver().Update(t, kindtest.Table{
		"spec.podInfoOnMount: true":           nil,
		"spec.storageCapacity: true":          nil,
		"spec.fsGroupPolicy: None":            nil,
		"spec.tokenRequests: [{audience: a}]": nil,
		"spec.requiresRepublish: true":        nil,
		"spec.seLinuxMount: true":             nil,
		"spec.attachRequired: false":          {"spec.attachedRequired: Invalid value: false: field is immutable"},
		"spec.volumeLifecycleModes: [Ephemeral]": {
			`spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable`,
		},
		"spec.fsGroupPolicy: Some": {
			`spec.fsGroupPolicy: Unsupported value: "Some": supported values: "File", "None", ` +
				`"ReadWriteOnceWithFSType"`,
		},
	})
	csiDriver().Stored(t, "update", kindtest.Table{
		"metadata.generation: 1 => spec.podInfoOnMount: true": {"metadata.generation: 2"},
		"metadata.generation: 1 => metadata.labels.a: b":      {"metadata.generation: 1"},
		"metadata.generation: 1 => spec.preventPodSchedulingIfMissing: true": {
			"spec.preventPodSchedulingIfMissing: null", "metadata.generation: 1",
		},
		"spec.preventPodSchedulingIfMissing: true => spec.preventPodSchedulingIfMissing: false": {
			"spec.preventPodSchedulingIfMissing: false",
		},
	})
}

func TestCSIDriverCells(t *testing.T) {
	csiDriver().Cells(t, kindtest.Table{
		"": {"disk.example.com", "true", "false", "false", "<unset>", "false", "Persistent", "24h"},
		"spec: {attachRequired: false, podInfoOnMount: true, storageCapacity: true, requiresRepublish: true, " +
			"tokenRequests: [{audience: a}, {audience: b}], volumeLifecycleModes: [Persistent, Ephemeral]}": {
			"disk.example.com", "false", "true", "true", "a,b", "true", "Persistent,Ephemeral", "24h",
		},
	})
}

func csiNode() kindtest.Fixture {
	return kindtest.Fixture{Kind: csiNodes(), Object: `
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: node-1, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {drivers: [{name: a.example.com, nodeID: n1, topologyKeys: [a/zone], allocatable: {count: 5}}]}
`}
}

func TestCSINode(t *testing.T) {
	csiNode().Create(t, kindtest.Table{
		"":                         nil,
		"spec.drivers: []":         nil,
		"spec.drivers[0].name: ''": {"spec.drivers[0].name: Required value"},
		"spec.drivers[0].name: a_b": {
			`spec.drivers[0].name: Invalid value: "a_b": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.drivers[0].nodeID: ''": {"spec.drivers[0].nodeID: Required value"},
		"spec.drivers[0].allocatable.count: -1": {
			"spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.drivers[0].allocatable: {}":                nil,
		"spec.drivers[0].topologyKeys: [a/zone, a/zone]": {`spec.drivers[0]: Duplicate value: "a/zone"`},
		"spec.drivers[0].topologyKeys: ['', 'a b']": {
			"spec.drivers[0]: Required value",
			`spec.drivers[0]: Invalid value: "": name part must be non-empty`,
			`spec.drivers[0]: Invalid value: "": name part must consist...`,
			`spec.drivers[0]: Invalid value: "a b": name part must consist...`,
		},
		"spec.drivers: [{name: a, nodeID: o}, {name: a, nodeID: m}]": {`spec.drivers[1].name: Duplicate value: "a"`},
	})
	csiNode().Update(t, kindtest.Table{
		"spec.drivers[0].allocatable.count: 9": nil,
		"spec.drivers[0].allocatable: null":    nil,
		"spec.drivers: []":                     nil,
		"spec.drivers[0].name: b.example.com":  nil,
		"spec.drivers[0].nodeID: n2": {
			`spec.drivers: Invalid value: ` +
				`{"Name":"a.example.com","NodeID":"n2","TopologyKeys":["a/zone"],"Allocatable":null}: field is ` +
				`immutable`,
		},
		"spec.drivers[0].topologyKeys: [b/zone]": {
			`spec.drivers: Invalid value: ` +
				`{"Name":"a.example.com","NodeID":"n1","TopologyKeys":["b/zone"],"Allocatable":null}: field is ` +
				`immutable`,
		},
	})
	csiNode().Cells(t, kindtest.Table{
		"":                 {"node-1", "1", "24h"},
		"spec.drivers: []": {"node-1", "0", "24h"},
	})
}
