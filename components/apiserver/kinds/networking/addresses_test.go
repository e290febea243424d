package networking

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func ipAddress() kindtest.Fixture {
	return kindtest.Fixture{Kind: ipAddresses(), Object: `
apiVersion: networking.k8s.io/v1
kind: IPAddress
metadata: {name: 10.96.0.1, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {parentRef: {resource: services, namespace: default, name: kubernetes}}
`}
}

func serviceCIDR(deps api.Deps) kindtest.Fixture {
	return kindtest.Fixture{Kind: serviceCIDRs(deps), Object: `
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: kubernetes, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {cidrs: [10.96.0.0/12]}
`}
}

func TestIPAddressValidation(t *testing.T) {
	ipAddress().Create(t, kindtest.Table{
		"":                             nil,
		"metadata.name: '2001:db8::1'": nil,
		"metadata.name: '2001:DB8::1'": {
			`metadata.name: Invalid value: "2001:DB8::1": must be in canonical form ("2001:db8::1")`,
		},
		"metadata.name: '2001:db8:0::1'": {
			`metadata.name: Invalid value: "2001:db8:0::1": must be in canonical form ("2001:db8::1")`,
		},
		"metadata.name: 010.96.0.1": {`metadata.name: Invalid value: "010.96.0.1": must not have leading 0s`},
		"metadata.name: '::ffff:1.2.3.4'": {
			`metadata.name: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address`,
		},
		"metadata.name: kubernetes": {
			`metadata.name: Invalid value: "kubernetes": must be a valid IP address, (e.g. 10.9.8.7 or ` +
				`2001:db8::ffff)`,
		},
		"spec.parentRef: null": {"spec.parentRef: Required value"},
		"spec.parentRef: {}":   {"spec.parentRef.resource: Required value", "spec.parentRef.name: Required value"},
		"spec.parentRef.group: Apps": {
			`spec.parentRef.group: Invalid value: "Apps": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.parentRef.group: gateway.networking.k8s.io": nil,
		"spec.parentRef.resource: a/b": {
			`spec.parentRef.resource: Invalid value: "a/b": may not contain '/'`,
		},
		"spec.parentRef.name: ..": {
			`spec.parentRef.name: Invalid value: "..": may not be '..'`,
		},
		"spec.parentRef.namespace: a%": {
			`spec.parentRef.namespace: Invalid value: "a%": may not contain '%'`,
		},
		"spec.parentRef.namespace: null": nil,
	})
	ipAddress().Update(t, kindtest.Table{
		"metadata.labels.a: b": nil,
		"spec.parentRef.name: other": {
			`spec.parentRef: Invalid value: ` +
				`{"Group":"","Resource":"services","Namespace":"default","Name":"other"}: field is immutable`,
		},
		"spec.parentRef: null": {
			"spec.parentRef: Required value",
			"spec.parentRef: Invalid value: null: field is immutable",
		},
	})
	if kind := ipAddress().Kind; !kind.Strategy.NoGeneratedNames {
		t.Error("a name can't be made up for an address")
	}
}

func TestServiceCIDRValidation(t *testing.T) {
	serviceCIDR(api.Deps{}).Create(t, kindtest.Table{
		"": nil,
		"spec.cidrs: [10.96.0.0/12, 'fd00::/108']": nil,
		"spec.cidrs: []": {"spec.cidrs: Required value: at least one CIDR required"},
		"spec.cidrs: [10.0.0.0/8, 'fd00::/108', 11.0.0.0/8]": {
			`spec.cidrs: Invalid value: {"CIDRs":["10.0.0.0/8","fd00::/108","11.0.0.0/8"]}: may only hold up to 2 ` +
				`values`,
		},
		"spec.cidrs: [10.0.0.0/8, 11.0.0.0/8]": {
			`spec.cidrs: Invalid value: ["10.0.0.0/8","11.0.0.0/8"]: may specify no more than one IP for each IP ` +
				`family, i.e 192.168.0.0/24 and 2001:db8::/64`,
		},
		"spec.cidrs: ['fd00::/108', 'fd01::/108']": {
			`spec.cidrs: Invalid value: ["fd00::/108","fd01::/108"]: may specify no more than one IP for each IP ` +
				`family, i.e 192.168.0.0/24 and 2001:db8::/64`,
		},
		"spec.cidrs: [10.0.0.1/8]": {
			`spec.cidrs[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length`,
		},
		"spec.cidrs: [10.0.0.0]": {
			`spec.cidrs[0]: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or ` +
				`2001:db8::/64)`,
		},
		"spec.cidrs: ['FD00::/108']": {
			`spec.cidrs[0]: Invalid value: "FD00::/108": must be in canonical form ("fd00::/108")`,
		},
	})
	serviceCIDR(api.Deps{}).Update(t, kindtest.Table{
		"spec.cidrs: [10.96.0.0/12, 'fd00::/108']": nil,
		"spec.cidrs: [10.96.0.0/12, 10.0.0.0/16]": {
			`spec.cidrs: Invalid value: ["10.96.0.0/12","10.0.0.0/16"]: may specify no more than one IP for each ` +
				`IP family, i.e 192.168.0.0/24 and 2001:db8::/64`,
		},
		"spec.cidrs: ['fd00::/108', 10.96.0.0/12]": {`spec.cidrs[0]: Invalid value: "fd00::/108": field is immutable`},
		"spec.cidrs: [10.0.0.0/12]":                {`spec.cidrs[0]: Invalid value: "10.0.0.0/12": field is immutable`},
		"spec.cidrs: []":                           {"spec.cidrs: Invalid value: []: field is immutable"},
		"spec.cidrs: [10.96.0.0/12, 'fd00::/108'] => spec.cidrs: [10.96.0.0/12]": {
			`spec.cidrs: Invalid value: ["10.96.0.0/12"]: field is immutable`,
		},
	})
}

func TestServiceCIDRStatus(t *testing.T) {
	const status = "status.conditions: [{type: Ready, status: 'True'}]"
	serviceCIDR(api.Deps{}).Stored(t, "create", kindtest.Table{status: {"status.conditions: null"}})
	serviceCIDR(api.Deps{OpenCIDRStatus: true}).Stored(t, "create", kindtest.Table{
		status: {"status.conditions[0].type: Ready"},
	})
	serviceCIDR(api.Deps{}).Stored(t, "update", kindtest.Table{status + " => status: null": {
		"status.conditions[0].type: Ready",
	}})
	serviceCIDR(api.Deps{}).Stored(t, "status", kindtest.Table{
		"metadata.labels.a: b; spec.cidrs: [10.0.0.0/8]; " + status: {
			"metadata.labels: null", "spec.cidrs: [10.96.0.0/12]", "status.conditions[0].type: Ready",
		},
	})
	serviceCIDR(api.Deps{}).Cells(t, kindtest.Table{
		"": {"kubernetes", "10.96.0.0/12", "24h"},
		"spec.cidrs: [10.96.0.0/12, 'fd00::/108']": {"kubernetes", "10.96.0.0/12,fd00::/108", "24h"},
	})
}

// TestAddressRow: rows of addresses have a cell more than there are columns, as upstream's have.
func TestAddressRow(t *testing.T) {
	for set, want := range map[string]string{
		"":                                 "services/default/kubernetes",
		"spec.parentRef.namespace: null":   "services/kubernetes",
		"spec.parentRef.group: Gateway.io": "services.gateway.io/default/kubernetes",
		"spec.parentRef: null":             "<none>",
	} {
		f := ipAddress().With(t, set)
		obj, _ := kindtest.Decode(t, f.Kind, kindtest.Parse(t, f.Object))
		row := f.Kind.Row(obj)
		if len(row) != 3 || len(f.Kind.Columns) != 2 || row[0] != "10.96.0.1" || row[1] != want {
			t.Errorf("%q: %v", set, row)
		}
	}
}
