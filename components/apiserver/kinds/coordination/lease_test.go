package coordination

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func lease() kindtest.Fixture {
	return kindtest.Fixture{Kind: leases(), Object: `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: scheduler, namespace: kube-system, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {holderIdentity: a}
`}
}

func TestLease(t *testing.T) {
	values := kindtest.Table{
		"":                              nil,
		"spec: {}":                      nil,
		"spec.leaseDurationSeconds: 1":  nil,
		"spec.leaseDurationSeconds: 0":  {"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"},
		"spec.leaseDurationSeconds: -1": {"spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0"},
		"spec.leaseTransitions: 0":      nil,
		"spec.leaseTransitions: -1": {
			"spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
		},
	}
	lease().Create(t, values)
	lease().Update(t, values)
	// What belongs to coordinated leader election is dropped, unless the lease has it.
	lease().Stored(t, "create", kindtest.Table{
		"spec: {strategy: OldestEmulationVersion, preferredHolder: b}": {
			"spec.strategy: null", "spec.preferredHolder: null",
		},
	})
	lease().Stored(t, "update", kindtest.Table{
		"spec: {strategy: OldestEmulationVersion, preferredHolder: b}": {
			"spec.strategy: null", "spec.preferredHolder: null",
		},
		"spec.strategy: a.b/c => spec.preferredHolder: b; spec.strategy: d.e/f": {
			"spec.strategy: d.e/f", "spec.preferredHolder: null",
		},
	})
	lease().Update(t, kindtest.Table{
		"spec.strategy: a.b/c => spec.strategy: a b": {
			`spec.strategy: Invalid value: "a b": name part must consist...`,
		},
		"spec: {strategy: a.b/c, preferredHolder: b} => spec.preferredHolder: c": nil,
		"spec: {strategy: a.b/c, preferredHolder: b} => spec.strategy: null": {
			"spec.preferredHolder: Forbidden: may only be specified when `strategy` is defined",
		},
		"spec: {strategy: a.b/c, preferredHolder: b} => spec.strategy: null; spec.preferredHolder: ''": nil,
	})
	lease().Cells(t, kindtest.Table{
		"":         {"scheduler", "a", "24h"},
		"spec: {}": {"scheduler", "", "24h"},
	})
}

func TestLeaseCandidate(t *testing.T) {
	candidate := kindtest.Fixture{Kind: leaseCandidates(), Object: `
apiVersion: coordination.k8s.io/v1beta1
kind: LeaseCandidate
metadata: {name: a, namespace: kube-system, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {leaseName: scheduler, binaryVersion: 1.36.0, emulationVersion: 1.35.0, strategy: OldestEmulationVersion}
`}
	candidate.Create(t, kindtest.Table{
		"":                     nil,
		"metadata.name: A_b.c": nil, // any key of a config map
		"metadata.name: a/b": {
			`metadata.name: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', ` +
				`'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is ` +
				`'[-._a-zA-Z0-9]+')`,
		},
		"spec.leaseName: ''":     {"spec.leaseName: Required value"},
		"spec.binaryVersion: ''": {"spec.binaryVersion: Required value"},
		"spec.binaryVersion: '1.36'": {
			`spec.binaryVersion: Invalid value: "1.36": must be a valid semantic version`,
			"spec.binaryVersion: Invalid value: \"1.36\": must be greater than or equal to `emulationVersion`",
		},
		"spec.binaryVersion: v1.36.0": {
			`spec.binaryVersion: Invalid value: "v1.36.0": must be a valid semantic version`,
			"spec.binaryVersion: Invalid value: \"v1.36.0\": must be greater than or equal to `emulationVersion`",
		},
		"spec.binaryVersion: 1.34.0": {
			"spec.binaryVersion: Invalid value: \"1.34.0\": must be greater than or equal to `emulationVersion`",
		},
		"spec.emulationVersion: '1.35'": {
			`spec.emulationVersion: Invalid value: "1.35": must be a valid semantic version`,
			"spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
		},
		"spec.emulationVersion: ''": {
			"spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
		},
		"spec.emulationVersion: ''; spec.strategy: example.com/Mine": nil,
		"spec.strategy: ''": {"spec.strategy: Required value"},
		"spec.strategy: Random": {
			`spec.strategy.strategy: Unsupported value: "Random": supported values: "OldestEmulationVersion"`,
		},
		"spec.strategy: 'example.com/a b'": {
			`spec.strategy.strategy: Invalid value: "example.com/a b": name part must consist...`,
		},
	})
	candidate.Update(t, kindtest.Table{
		"spec.binaryVersion: 1.37.0": nil,
		"spec.leaseName: other":      {`spec.leaseName: Invalid value: "other": field is immutable`},
	})
	candidate.Cells(t, kindtest.Table{"": {"a", "scheduler", "1.36.0", "1.35.0", "24h"}})
}
