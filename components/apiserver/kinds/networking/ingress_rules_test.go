package networking

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func ingress() kindtest.Fixture {
	return kindtest.Fixture{Kind: ingresses(api.Deps{}), Object: `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  rules:
  - host: example.com
    http:
      paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]
`}
}

func TestIngressRules(t *testing.T) {
	ingress().Create(t, kindtest.Table{
		"": nil,
		"spec: {}": {
			"spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
		},
		"spec.rules: []": {
			"spec: Invalid value: []: either `defaultBackend` or `rules` must be specified",
		},
		"spec.rules[0].http: null":            nil,
		"spec.rules[0].http.paths: []":        {"spec.rules[0].http.paths: Required value"},
		"spec.rules[0].host: '*.example.com'": nil,
		"spec.rules[0].host: '*'":             {`spec.rules[0].host: Invalid value: "*": a wildcard DNS-1123...`},
		"spec.rules[0].host: 'a.*.com'":       {`spec.rules[0].host: Invalid value: "a.*.com": a wildcard DNS-1123...`},
		"spec.rules[0].host: 10.0.0.1": {
			"spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
		},
		"spec.rules[0].host: '2001:db8::1'": {
			`spec.rules[0].host: Invalid value: "2001:db8::1": must be a DNS name, not an IP address`,
			`spec.rules[0].host: Invalid value: "2001:db8::1": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.rules[0].host: Example.com": {
			`spec.rules[0].host: Invalid value: "Example.com": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.rules[0].host: example.com:80": {
			`spec.rules[0].host: Invalid value: "example.com:80": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.ingressClassName: nginx": nil,
		"spec.ingressClassName: A_b": {
			`spec.ingressClassName: Invalid value: "A_b": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.ingressClassName: ''": {
			`spec.ingressClassName: Invalid value: "": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.tls: [{hosts: [example.com, '*.example.com'], secretName: tls}]": nil,
		"spec.tls: [{hosts: [Example.com, '*.*']}]": {
			`spec.tls[0].hosts[0]: Invalid value: "Example.com": a lowercase RFC 1123 subdomain must...`,
			`spec.tls[0].hosts[1]: Invalid value: "*.*": a wildcard DNS-1123...`,
		},
		"spec.tls: [{secretName: A}]": {
			`spec.tls[0].secretName: Invalid value: "A": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.tls: [{}]": nil,
		`metadata.annotations["kubernetes.io/ingress.class"]: nginx`:                               nil,
		`metadata.annotations["kubernetes.io/ingress.class"]: nginx; spec.ingressClassName: nginx`: nil,
		`metadata.annotations["kubernetes.io/ingress.class"]: nginx; spec.ingressClassName: other`: {
			"annotations.kubernetes.io/ingress.class: Invalid value: \"nginx\": must match `ingressClassName` when " +
				"both are specified",
		},
	})
}

func TestIngressPaths(t *testing.T) {
	const path, kind = "spec.rules[0].http.paths[0].path: ", "spec.rules[0].http.paths[0].pathType: "
	ingress().Create(t, kindtest.Table{
		kind + "null": {"spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"},
		kind + "Regex": {
			`spec.rules[0].http.paths[0].pathType: Unsupported value: "Regex": supported values: "Exact", ` +
				`"ImplementationSpecific", "Prefix"`,
		},
		kind + "Exact":        nil,
		path + "null":         {`spec.rules[0].http.paths[0].path: Invalid value: "": must be an absolute path`},
		path + "app":          {`spec.rules[0].http.paths[0].path: Invalid value: "app": must be an absolute path`},
		path + "/a//b":        {`spec.rules[0].http.paths[0].path: Invalid value: "/a//b": must not contain '//'`},
		path + "/a/./b":       {`spec.rules[0].http.paths[0].path: Invalid value: "/a/./b": must not contain '/./'`},
		path + "/a/../b":      {`spec.rules[0].http.paths[0].path: Invalid value: "/a/../b": must not contain '/../'`},
		path + "/a%2fb":       {`spec.rules[0].http.paths[0].path: Invalid value: "/a%2fb": must not contain '%2f'`},
		path + "/a%2Fb":       {`spec.rules[0].http.paths[0].path: Invalid value: "/a%2Fb": must not contain '%2F'`},
		path + "/a/..":        {`spec.rules[0].http.paths[0].path: Invalid value: "/a/..": cannot end with '/..'`},
		path + "/a/.":         {`spec.rules[0].http.paths[0].path: Invalid value: "/a/.": cannot end with '/.'`},
		path + "/a/":          nil,
		path + "/.well-known": nil,
		kind + "ImplementationSpecific; " + path + "null": nil,
		kind + "ImplementationSpecific; " + path + "a": {
			`spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path`,
		},
		kind + "ImplementationSpecific; " + path + "/a//b/../%2f": nil,
	})
}

func TestIngressBackends(t *testing.T) {
	const backend = "spec.rules[0].http.paths[0].backend: "
	ingress().Create(t, kindtest.Table{
		backend + "{}": {
			`spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required`,
		},
		backend + "{service: {name: web, port: {name: http}}}": nil,
		backend + "{service: {name: web, port: {}}}": {
			"spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
		},
		backend + "{service: {name: web, port: {name: http, number: 80}}}": {
			`spec.rules[0].http.paths[0].backend: Invalid value: "": cannot set both port name & port number`,
		},
		backend + "{service: {name: web, port: {number: 65536}}}": {
			"spec.rules[0].http.paths[0].backend.service.port.number: Invalid value: 65536: must be between 1 and " +
				"65535, inclusive",
		},
		backend + "{service: {name: web, port: {number: -1}}}": {
			"spec.rules[0].http.paths[0].backend.service.port.number: Invalid value: -1: must be between 1 and " +
				"65535, inclusive",
		},
		backend + "{service: {name: web, port: {name: Http}}}": {
			`spec.rules[0].http.paths[0].backend.service.port.name: Invalid value: "Http": must contain only ` +
				`alpha-numeric characters (a-z, 0-9), and hyphens (-)`,
		},
		backend + "{service: {name: web, port: {name: a-name-that-is-too-long}}}": {
			`spec.rules[0].http.paths[0].backend.service.port.name: Invalid value: "a-name-that-is-too-long": must ` +
				`be no more than 15 characters`,
		},
		backend + "{service: {name: web, port: {name: '1'}}}": {
			`spec.rules[0].http.paths[0].backend.service.port.name: Invalid value: "1": must contain at least one ` +
				`letter (a-z)`,
		},
		backend + "{service: {port: {number: 80}}}": {
			"spec.rules[0].http.paths[0].backend.service.name: Required value",
		},
		backend + "{service: {name: Web, port: {number: 80}}}": {
			`spec.rules[0].http.paths[0].backend.service.name: Invalid value: "Web": a lowercase RFC 1123 label ` +
				`must consist...`,
		},
		backend + "{service: {name: web.x, port: {number: 80}}}": {
			`spec.rules[0].http.paths[0].backend.service.name: Invalid value: "web.x": must not contain dots`,
		},
		backend + "{resource: {kind: Bucket, name: b}}":                        nil,
		backend + "{resource: {apiGroup: example.com, kind: Bucket, name: b}}": nil,
		backend + "{resource: {apiGroup: Example, kind: a/b, name: '..'}}": {
			`spec.rules[0].http.paths[0].backend.resource.apiGroup: Invalid value: "Example": a lowercase RFC 1123 ` +
				`subdomain must...`,
			`spec.rules[0].http.paths[0].backend.resource.kind: Invalid value: "a/b": may not contain '/'`,
			`spec.rules[0].http.paths[0].backend.resource.name: Invalid value: "..": may not be '..'`,
		},
		backend + "{resource: {}}": {
			"spec.rules[0].http.paths[0].backend.resource.kind: Required value",
			"spec.rules[0].http.paths[0].backend.resource.name: Required value",
		},
		backend + "{resource: {kind: B, name: b}, service: {name: s, port: {number: 1}}}": {
			`spec.rules[0].http.paths[0].backend: Invalid value: "": cannot set both resource and service backends`,
		},
		"spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}": nil,
		"spec: {defaultBackend: {service: {name: web}}}": {
			"spec.defaultBackend: Required value: port name or number is required",
		},
		"spec: {defaultBackend: {}}": {
			`spec.defaultBackend: Invalid value: "": resource or service backend is required`,
		},
	})
	// Names that begin with a digit came with relaxed names of services.
	relaxed := kindtest.Table{backend + "{service: {name: 1web, port: {number: 80}}}": nil}
	strict := kindtest.Table{backend + "{service: {name: 1web, port: {number: 80}}}": {
		"spec.rules[0].http.paths[0].backend.service.name: Invalid value: \"1web\": a DNS-1035 label must...",
	}}
	s := kindtest.Fixture{Kind: ingresses(api.Deps{StrictServiceNames: true}), Object: ingress().Object}
	s.Create(t, strict)
	s.With(t, "spec.defaultBackend: {service: {name: 2web, port: {number: 80}}}").Update(t, relaxed)
}

func TestIngressUpdate(t *testing.T) {
	const annotation = `metadata.annotations["kubernetes.io/ingress.class"]: `
	ingress().Update(t, kindtest.Table{
		"spec.rules[0].host: other.com": nil,
		"spec.rules[0].host: Other": {
			`spec.rules[0].host: Invalid value: "Other": a lowercase RFC 1123 subdomain must...`,
		},
		annotation + "nginx; spec.ingressClassName: other":           nil, // is asked of new ones only
		"spec.tls: [{secretName: A}] => spec.tls: [{secretName: B}]": nil,
		"spec.tls: [{secretName: a}] => spec.tls: [{secretName: B}]": {
			`spec.tls[0].secretName: Invalid value: "B": a lowercase RFC 1123 subdomain must...`,
		},
	})
	ingress().Stored(t, "update", kindtest.Table{
		"metadata.generation: 2; status.loadBalancer.ingress: [{ip: 1.2.3.4}] => spec.ingressClassName: x; " +
			"status: {}": {
			"metadata.generation: 3", "status.loadBalancer.ingress[0].ip: 1.2.3.4",
		},
		"metadata.generation: 2 => metadata.labels.a: b": {"metadata.generation: 2"},
	})
	ingress().Stored(t, "create", kindtest.Table{
		"status.loadBalancer.ingress: [{ip: 1.2.3.4}]": {"status.loadBalancer.ingress: null", "metadata.generation: 1"},
	})
	ingress().Warnings(t, "create", kindtest.Table{
		"": nil,
		annotation + "nginx": {
			`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`,
		},
		annotation + "nginx; spec.ingressClassName: nginx": nil,
	})
	ingress().Warnings(t, "update", kindtest.Table{annotation + "nginx": nil})
}

func TestIngressStatus(t *testing.T) {
	const ingresses = "status.loadBalancer.ingress: "
	ingress().Subresource(t, "status", kindtest.Table{
		ingresses + "[{ip: 1.2.3.4}, {hostname: a.example.com}]": nil,
		ingresses + "[{ip: 1.2.3}]": {
			`status.loadBalancer.ingress[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 ` +
				`or 2001:db8::ffff)`,
		},
		ingresses + "[{ip: 01.2.3.4}]": {
			`status.loadBalancer.ingress[0].ip: Invalid value: "01.2.3.4": must not have leading 0s`,
		},
		ingresses + "[{ip: 01.2.3.4}] => " + ingresses + "[{ip: 1.2.3.4}, {ip: 01.2.3.4}]": nil,
		ingresses + "[{hostname: 1.2.3.4}]": {
			`status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`,
		},
		ingresses + "[{hostname: A}]": {
			`status.loadBalancer.ingress[0].hostname: Invalid value: "A": a lowercase RFC 1123 subdomain must...`,
		},
		ingresses + "[{ip: x, hostname: 'y_z'}]": {
			`status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or ` +
				`2001:db8::ffff)`,
			`status.loadBalancer.ingress[0].hostname: Invalid value: "y_z": a lowercase RFC 1123 subdomain must...`,
		},
	})
	ingress().Warnings(t, "status", kindtest.Table{
		ingresses + "[{ip: 1.2.3.4}]": nil,
		ingresses + "[{ip: '2001:DB8::0:1'}]": {
			`status.loadBalancer.ingress[0]: IPv6 address "2001:DB8::0:1" should be in RFC 5952 canonical format ` +
				`("2001:db8::1")`,
		},
	})
	ingress().Stored(t, "status", kindtest.Table{
		"spec.ingressClassName: x; " + ingresses + "[{ip: 1.2.3.4}]": {
			"spec.ingressClassName: null", "status.loadBalancer.ingress[0].ip: 1.2.3.4",
		},
	})
}

func TestIngressCells(t *testing.T) {
	ingress().Cells(t, kindtest.Table{
		"": {"web", "<none>", "example.com", "", "80", "24h"},
		"spec.ingressClassName: nginx; spec.tls: [{}]": {"web", "nginx", "example.com", "", "80, 443", "24h"},
		"spec.rules: []": {"web", "<none>", "*", "", "80", "24h"},
		"spec.rules: [{host: a}, {host: b}, {host: c}]": {"web", "<none>", "a,b,c", "", "80", "24h"},
		"spec.rules: [{host: a}, {host: b}, {host: c}, {host: d}, {host: e}]": {
			"web", "<none>", "a,b,c + 2 more...", "", "80", "24h",
		},
		"status.loadBalancer.ingress: [{ip: 9.9.9.9}, {hostname: h}, {ip: 1.1.1.1, hostname: x}, {ip: 9.9.9.9}]": {
			"web", "<none>", "example.com", "1.1.1.1,9.9.9.9,h", "80", "24h",
		},
	})
}
