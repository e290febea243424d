package resource

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func resourceClaim() kindtest.Fixture {
	return kindtest.Fixture{Kind: resourceClaims(api.Deps{}), Object: `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
`}
}

func TestClaimRequests(t *testing.T) {
	const exactly = "spec.devices.requests[0].exactly"
	resourceClaim().Create(t, kindtest.Table{
		"":         nil,
		"spec: {}": nil,
		"spec.devices.requests[0].name: A": {
			`spec.devices.requests[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist...`,
		},
		"spec.devices.requests: [{name: a, exactly: {deviceClassName: g}}, {name: a, exactly: {deviceClassName: g}}]": {
			`spec.devices.requests[1]: Duplicate value: "a"`,
		},
		"spec.devices.requests: [{name: a}]": {
			"spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
		},
		"spec.devices.requests[0].firstAvailable: [{name: a, deviceClassName: g}]": {
			"spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is " +
				"required, but multiple fields are set",
		},
		"spec.devices.requests: [{name: a, firstAvailable: [{name: b, deviceClassName: g}, {name: b, " +
			"deviceClassName: g}]}]": {
			`spec.devices.requests[0].firstAvailable[1]: Duplicate value: "b"`,
		},
		exactly + ".deviceClassName: ''": {"spec.devices.requests[0].exactly.deviceClassName: Required value"},
		exactly + ".deviceClassName: A": {
			`spec.devices.requests[0].exactly.deviceClassName: Invalid value: "A": a lowercase RFC 1123 subdomain ` +
				`must...`,
		},
		exactly + ".allocationMode: Most": {
			`spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Most": supported values: "All", ` +
				`"ExactCount"`,
		},
		exactly + ".allocationMode: All": nil,
		exactly + ": {deviceClassName: g, allocationMode: All, count: 2}": {
			"spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode " +
				"is 'All'",
		},
		exactly + ".count: -1": {
			"spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero",
		},
		exactly + ".selectors: [{}]": {
			"spec.devices.requests[0].exactly.selectors[0].cel: Required value",
		},
		exactly + ".selectors: [{cel: {expression: device.driver == 'x'}}]": nil,
		exactly + ".selectors: [{cel: {expression: nothing}}]": {
			"spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: \"nothing\": compilation " +
				"failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing\n | ^",
		},
		exactly + ".tolerations: [{operator: Exists}]": nil,
		exactly + ".tolerations: [{operator: Exists, value: x}]": {
			"spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: \"x\": must be empty for " +
				"operator `Exists`",
		},
		exactly + ".tolerations: [{operator: Like, key: 'a b', effect: NoWay}]": {
			`spec.devices.requests[0].exactly.tolerations[0].key: Invalid value: "a b": name part must consist...`,
			`spec.devices.requests[0].exactly.tolerations[0].operator: Unsupported value: "Like": supported ` +
				`values: "Equal", "Exists"`,
			`spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: "NoWay": supported values: ` +
				`"NoExecute", "NoSchedule", "None"`,
		},
		exactly + ".tolerations: [{key: a, value: 'b c'}]": {
			`spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "b c": a valid label must...`,
		},
	})
}

func TestClaimConstraints(t *testing.T) {
	const constraints, config = "spec.devices.constraints: ", "spec.devices.config: "
	resourceClaim().Create(t, kindtest.Table{
		constraints + "[{requests: [gpu], matchAttribute: a.b/c}]": nil,
		constraints + "[{matchAttribute: c}]": {
			`spec.devices.constraints[0].matchAttribute: Invalid value: "c": a fully qualified name must be a ` +
				`domain and a name separated by a slash`,
		},
		constraints + "[{requests: [other], distinctAttribute: a.b/c}]": {
			`spec.devices.constraints[0].requests[0]: Invalid value: "other": must be the name of a request in the ` +
				`claim or the name of a request and a subrequest separated by '/'`,
		},
		constraints + "[{requests: [gpu/sub, gpu, gpu], matchAttribute: a.b/c}]": {
			`spec.devices.constraints[0].requests[0]: Invalid value: "gpu/sub": must be the name of a request in ` +
				`the claim or the name of a request and a subrequest separated by '/'`,
			`spec.devices.constraints[0].requests[2]: Duplicate value: "gpu"`,
		},
		constraints + "[{}]": {
			`spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" ` +
				`is required, but multiple fields are set`,
		},
		constraints + "[{matchAttribute: /}]": {
			`spec.devices.constraints[0].matchAttribute: Invalid value: "": the domain must not be empty`,
			`spec.devices.constraints[0].matchAttribute: Invalid value: "": the name must not be empty`,
		},
		config + "[{opaque: {driver: a.b, parameters: {x: 1}}}]": nil,
		config + "[{}]": {"spec.devices.config[0].opaque: Required value"},
		config + "[{opaque: {driver: '', parameters: []}}]": {
			"spec.devices.config[0].opaque.driver: Required value",
			`spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`,
		},
		config + "[{opaque: {driver: a_b, parameters: null}}]": {
			`spec.devices.config[0].opaque.driver: Invalid value: "a_b": a lowercase RFC 1123 subdomain must...`,
			"spec.devices.config[0].opaque.parameters: Required value",
		},
		config + "[{requests: [a/b/c], opaque: {driver: a.b, parameters: {}}}]": {
			`spec.devices.config[0].requests[0]: Invalid value: "a/b/c": must be the name of a request in the ` +
				`claim or the name of a request and a subrequest separated by '/'`,
		},
	})
}

func TestClaimStatus(t *testing.T) {
	const result = "status.allocation.devices.results: [{request: gpu, driver: a.b, pool: p, device: d}]"
	const consumer = "status.reservedFor: [{resource: pods, name: p, uid: u}]"
	const device = "status.devices: [{driver: a.b, pool: p, device: d"
	resourceClaim().Subresource(t, "status", kindtest.Table{
		result:                   nil,
		result + "; " + consumer: nil,
		consumer:                 {"status.reservedFor: Forbidden: may not be specified when `allocated` is not set"},
		result + "; status.reservedFor: [{}]": {
			"status.reservedFor[0].resource: Required value",
			"status.reservedFor[0].name: Required value",
			"status.reservedFor[0].uid: Required value",
		},
		result + "; status.reservedFor: [{resource: pods, name: p, uid: u}, {resource: pods, name: q, uid: u}]": {
			`status.reservedFor[1]: Duplicate value: "u"`,
		},
		"status.allocation.devices.results: [{request: other, driver: '', pool: P, device: D}]": {
			`status.allocation.devices.results[0].request: Invalid value: "other": must be the name of a request ` +
				`in the claim or the name of a request and a subrequest separated by '/'`,
			"status.allocation.devices.results[0].driver: Required value",
			`status.allocation.devices.results[0].pool: Invalid value: "P": a lowercase RFC 1123 subdomain must...`,
			`status.allocation.devices.results[0].device: Invalid value: "D": a lowercase RFC 1123 label must ` +
				`consist...`,
		},
		"status.allocation.devices.config: [{source: FromThere, opaque: {driver: a.b, parameters: {}}}]": {
			`status.allocation.devices.config[0].source: Unsupported value: "FromThere": supported values: ` +
				`"FromClaim", "FromClass"`,
		},
		result + " => status.allocation.devices.results[0].device: e": {"status.allocation: Invalid value: {..."},
		result + " => status.allocation: null":                        nil,
		result + "; " + device + "}]":                                 nil,
		device + "}]": {
			`status.devices[0]: Invalid value: {"Driver":"a.b","Pool":"p","Device":"d","ShareID":""}: must be an ` +
				`allocated device in the claim`,
		},
		result + "; " + device + ", networkData: {ips: [10.0.0.1/24, 10.0.0.1/24, x]}}]": {
			`status.devices[0].networkData.ips[2]: Invalid value: "x": must be a valid address in CIDR form, (e.g. ` +
				`10.9.8.7/24 or 2001:db8::1/64)`,
			`status.devices[0].networkData.ips[1]: Duplicate value: "10.0.0.1/24"`,
		},
		result + "; " + device + ", data: []}]": {
			`status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object`,
		},
		result + "; " + device + ", shareID: X}]": {
			`status.devices[0].shareID: Invalid value: "X": error validating uid: invalid UUID length: 1`,
			`status.devices[0]: Invalid value: {"Driver":"a.b","Pool":"p","Device":"d","ShareID":"X"}: must be an ` +
				`allocated device in the claim`,
		},
	})
	resourceClaim().Stored(t, "status", kindtest.Table{
		result + "; metadata.labels.a: b; spec: {}": {"metadata.labels: null", "spec.devices." +
			"requests[0].name: gpu"},
		result + "; " + device + "}] => status.allocation: null": {"status.devices: null"}, // which it has no more
	})
	resourceClaim().Stored(t, "create", kindtest.Table{
		result: {"status.allocation: null", "spec.devices.requests[0].exactly.count: 1",
			"spec.devices.requests[0].exactly.allocationMode: ExactCount"},
		"spec.devices.requests[0].exactly.tolerations: [{key: a}]": {
			"spec.devices.requests[0].exactly.tolerations[0].operator: Equal",
		},
	})
	resourceClaim().Update(t, kindtest.Table{
		"metadata.labels.a: b":             nil,
		"spec.devices.requests[0].name: b": {"spec: Invalid value: {..."},
	})
	resourceClaim().Cells(t, kindtest.Table{
		"":                       {"c", "pending", "24h"},
		result:                   {"c", "allocated", "24h"},
		result + "; " + consumer: {"c", "allocated,reserved", "24h"},
		result + "; metadata.deletionTimestamp: 2026-01-02T12:00:00Z": {"c", "deleted,allocated", "24h"},
		"metadata.deletionTimestamp: 2026-01-02T12:00:00Z":            {"c", "deleted", "24h"},
	})
}

func TestDeviceClass(t *testing.T) {
	class := kindtest.Fixture{Kind: deviceClasses(), Object: `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {selectors: [{cel: {expression: device.driver == 'x'}}]}
`}
	class.Create(t, kindtest.Table{
		"":                     nil,
		"metadata.name: A":     {`metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must...`},
		"spec.selectors: [{}]": {"spec.selectors[0].cel: Required value"},
		"spec.config: [{opaque: {driver: A_b, parameters: text}}]": {
			`spec.config[0].opaque.driver: Invalid value: "A_b": a lowercase RFC 1123 subdomain must...`,
			`spec.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`,
		},
		"spec.extendedResourceName: example.com/gpu": nil,
		"spec.extendedResourceName: cpu": {
			`spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name`,
		},
	})
	class.Update(t, kindtest.Table{
		"spec.selectors: []": nil,
		"spec.selectors: [{}] => spec.selectors: [{}, {}]": {
			"spec.selectors[0].cel: Required value",
			"spec.selectors[1].cel: Required value",
		},
	})
	class.Stored(t, "update", kindtest.Table{
		"metadata.generation: 1 => spec.selectors: []":   {"metadata.generation: 2"},
		"metadata.generation: 1 => metadata.labels.a: b": {"metadata.generation: 1"},
	})
	class.Cells(t, kindtest.Table{"": {"gpu", "24h"}})
}
