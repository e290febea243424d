package networking

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func networkPolicy() kindtest.Fixture {
	return kindtest.Fixture{Kind: networkPolicies(), Object: `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {podSelector: {}}
`}
}

func TestNetworkPolicyPorts(t *testing.T) {
	const ports = "spec.ingress: [{ports: "
	networkPolicy().Create(t, kindtest.Table{
		ports + "[{}]}]":                         nil,
		ports + "[{port: 80}, {port: http}]}]":   nil,
		ports + "[{protocol: SCTP, port: 80}]}]": nil,
		ports + "[{protocol: ICMP}]}]": {
			`spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"`,
		},
		ports + "[{port: 0}]}]": {
			"spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
		},
		ports + "[{port: 65536}]}]": {
			"spec.ingress[0].ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive",
		},
		ports + "[{port: Http}]}]": {
			`spec.ingress[0].ports[0].port: Invalid value: "Http": must contain only alpha-numeric characters ` +
				`(a-z, 0-9), and hyphens (-)`,
		},
		ports + "[{port: ''}]}]": {
			`spec.ingress[0].ports[0].port: Invalid value: "": must contain only alpha-numeric characters (a-z, ` +
				`0-9), and hyphens (-)`,
			`spec.ingress[0].ports[0].port: Invalid value: "": must contain at least one letter (a-z)`,
		},
		ports + "[{port: 80, endPort: 80}]}]": nil,
		ports + "[{port: 80, endPort: 79}]}]": {
			"spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
		},
		ports + "[{port: 80, endPort: 65536}]}]": {
			"spec.ingress[0].ports[0].endPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
		},
		ports + "[{port: http, endPort: 80}]}]": {
			"spec.ingress[0].ports[0].endPort: Invalid value: 80: may not be specified when `port` is non-numeric",
		},
		ports + "[{endPort: 80}]}]": {
			"spec.ingress[0].ports[0].endPort: Invalid value: 80: may not be specified when `port` is not specified",
		},
		"spec.egress: [{}, {ports: [{port: -1}]}]": {
			"spec.egress[1].ports[0].port: Invalid value: -1: must be between 1 and 65535, inclusive",
		},
	})
}

func TestNetworkPolicyPeers(t *testing.T) {
	const from = "spec.ingress: [{from: "
	networkPolicy().Create(t, kindtest.Table{
		from + "[{podSelector: {}}, {namespaceSelector: {}}, {podSelector: {}, namespaceSelector: {}}]}]": nil,
		from + "[{}]}]": {"spec.ingress[0].from[0]: Required value: must specify a peer"},
		from + "[{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}]": {
			"spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
		},
		from + "[{podSelector: {matchLabels: {a: 'b c'}}}]}]": {
			`spec.ingress[0].from[0].podSelector.matchLabels: Invalid value: "b c": a valid label must...`,
		},
		from + "[{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}]}]": {
			"spec.ingress[0].from[0].namespaceSelector.matchExpressions[0].values: Required value: must be " +
				"specified when `operator` is 'In' or 'NotIn'",
		},
		from + "[{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.2.0.0/16]}}]}]": nil,
		from + "[{ipBlock: {cidr: '2001:db8::/32', except: ['2001:db8:1::/48']}}]}]":   nil,
		from + "[{ipBlock: {}}]}]": {"spec.ingress[0].from[0].ipBlock.cidr: Required value"},
		from + "[{ipBlock: {cidr: 10.0.0.0}}]}]": {
			`spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. ` +
				`10.9.8.0/24 or 2001:db8::/64)`,
		},
		from + "[{ipBlock: {cidr: a, except: [b]}}]}]": {
			`spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "a": must be a valid CIDR value, (e.g. ` +
				`10.9.8.0/24 or 2001:db8::/64)`,
		}, // of which nothing can be a part
		from + "[{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}]": {
			"spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of " +
				"`cidr`",
		},
		from + "[{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/8]}}]}]": {
			"spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of " +
				"`cidr`",
		},
		from + "[{ipBlock: {cidr: 10.0.0.0/16, except: [10.0.0.0/8]}}]}]": {
			"spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of " +
				"`cidr`",
		},
		from + "[{ipBlock: {cidr: 10.0.0.0/8, except: ['2001:db8::/48', x]}}]}]": {
			"spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"2001:db8::/48\": must be a strict subset " +
				"of `cidr`",
			`spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: "x": must be a valid CIDR value, (e.g. ` +
				`10.9.8.0/24 or 2001:db8::/64)`,
		},
		from + "[{ipBlock: {cidr: 10.00.0.0/8}}]}]": {
			`spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "10.00.0.0/8": must not have leading 0s in IP or ` +
				`prefix length`,
		},
		"spec.egress: [{to: [{}]}]": {"spec.egress[0].to[0]: Required value: must specify a peer"},
		"spec.podSelector.matchLabels: {a: 'b c'}": {
			`spec.podSelector.matchLabels: Invalid value: "b c": a valid label must...`,
		},
	})
}

func TestNetworkPolicyTypes(t *testing.T) {
	networkPolicy().Create(t, kindtest.Table{
		"spec.policyTypes: [Egress]":           nil,
		"spec.policyTypes: [Ingress, Egress]":  nil,
		"spec.policyTypes: [Ingress, Ingress]": nil, // upstream doesn't mind
		"spec.policyTypes: [Both]": {
			`spec.policyTypes[0]: Unsupported value: "Both": supported values: "Ingress", "Egress"`,
		},
		"spec.policyTypes: [Ingress, Egress, Ingress]": {
			`spec.policyTypes: Invalid value: ["Ingress","Egress","Ingress"]: may not specify more than two ` +
				`policyTypes`,
		},
	})
	networkPolicy().Stored(t, "create", kindtest.Table{
		"":                           {"spec.policyTypes: [Ingress]", "metadata.generation: 1"},
		"spec.egress: [{}]":          {"spec.policyTypes: [Ingress, Egress]"},
		"spec.ingress: [{}]":         {"spec.policyTypes: [Ingress]"},
		"spec.policyTypes: [Egress]": {"spec.policyTypes: [Egress]"},
		"spec.egress: [{ports: [{port: 53}, {port: 53, protocol: UDP}]}]": {
			"spec.egress[0].ports[0].protocol: TCP", "spec.egress[0].ports[1].protocol: UDP",
		},
	})
}

func TestNetworkPolicyUpdate(t *testing.T) {
	networkPolicy().Stored(t, "update", kindtest.Table{
		"metadata.generation: 1 => spec.podSelector.matchLabels.a: b": {"metadata.generation: 2"},
		"metadata.generation: 1 => metadata.labels.a: b":              {"metadata.generation: 1"},
		// an empty list isn't none
		"metadata.generation: 1 => spec.ingress: []": {"metadata.generation: 2"},
	})
	networkPolicy().Update(t, kindtest.Table{
		"spec.podSelector.matchLabels.a: b": nil,
		"spec.policyTypes: [Both]": {
			`spec.policyTypes[0]: Unsupported value: "Both": supported values: "Ingress", "Egress"`,
		},
	})
	networkPolicy().Warnings(t, "create", kindtest.Table{
		"spec.ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]": nil,
		"spec.egress: [{to: [{ipBlock: {cidr: '2001:0db8::/32'}}]}]": {
			`spec.egress[0].to[0].ipBlock.cidr: IPv6 CIDR value "2001:0db8::/32" should be in RFC 5952 canonical ` +
				`format ("2001:db8::/32")`,
		},
	})
	networkPolicy().Warnings(t, "update", kindtest.Table{ // new ones are not taken
		"spec.ingress: [{from: [{ipBlock: {cidr: 10.0.0.1/8, except: [10.1.0.1/16]}}]}] => metadata.labels.a: b": {
			`spec.ingress[0].from[0].ipBlock.cidr: CIDR value "10.0.0.1/8" is ambiguous in this context (should be ` +
				`"10.0.0.0/8" or "10.0.0.1/32"?)`,
			`spec.ingress[0].from[0].ipBlock.except[0]: CIDR value "10.1.0.1/16" is ambiguous in this context ` +
				`(should be "10.1.0.0/16" or "10.1.0.1/32"?)`,
		},
	})
	networkPolicy().Cells(t, kindtest.Table{
		"":                                  {"deny", "<none>", "24h"},
		"spec.podSelector.matchLabels.a: b": {"deny", "a=b", "24h"},
	})
}
