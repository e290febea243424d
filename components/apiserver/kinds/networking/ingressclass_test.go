package networking

import (
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func ingressClass() kindtest.Fixture {
	return kindtest.Fixture{Kind: ingressClasses(), Object: `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {controller: example.com/ingress}
`}
}

func TestIngressClassValidation(t *testing.T) {
	const parameters = "spec.parameters: "
	ingressClass().Create(t, kindtest.Table{
		"":                    nil,
		"spec.controller: ''": {"spec.controller: Required value"},
		"spec.controller: ingress": {
			`spec.controller: Invalid value: "ingress": must be a domain-prefixed path (such as "acme.io/foo")`,
		},
		"spec.controller: example.com/a b": {
			`spec.controller: Invalid value: "a b": Invalid path (regex used for validation is ` +
				`'[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')`,
		},
		"spec.controller: example.com/" + strings.Repeat("a", 238): nil,
		"spec.controller: example.com/" + strings.Repeat("a", 239): {
			"spec.controller: Too long: may not be more than 250 bytes",
		},
		parameters + "{kind: P, name: p}":                                        nil,
		parameters + "{apiGroup: example.com, kind: P, name: p, scope: Cluster}": nil,
		parameters + "{kind: P, name: p, scope: Namespace, namespace: ns}":       nil,
		parameters + "{kind: P, name: p, scope: Namespace}": {
			"spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
		},
		parameters + "{kind: P, name: p, scope: Namespace, namespace: Ns}": {
			`spec.parameters.namespace: Invalid value: "Ns": a lowercase RFC 1123 label must consist...`,
		},
		parameters + "{kind: P, name: p, scope: Namespace, namespace: ''}": {
			`spec.parameters.namespace: Invalid value: "": a lowercase RFC 1123 label must consist...`,
		},
		parameters + "{kind: P, name: p, scope: Cluster, namespace: ns}": {
			"spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
		},
		parameters + "{kind: P, name: p, namespace: ns}": {
			"spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
		}, // the scope is Cluster by default
		parameters + "{kind: P, name: p, scope: Galaxy}": {
			`spec.parameters.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespace"`,
		},
		parameters + "{kind: P, name: p, scope: ''}": {
			`spec.parameters.scope: Unsupported value: "": supported values: "Cluster", "Namespace"`,
		},
		parameters + "{apiGroup: A, kind: 'a%', name: 'a/b'}": {
			`spec.parameters.apiGroup: Invalid value: "A": a lowercase RFC 1123 subdomain must...`,
			`spec.parameters.kind: Invalid value: "a%": may not contain '%'`,
			`spec.parameters.name: Invalid value: "a/b": may not contain '/'`,
		},
		parameters + "{}": {
			"spec.parameters.kind: Required value",
			"spec.parameters.name: Required value",
		},
	})
	ingressClass().Stored(t, "create", kindtest.Table{
		"":                                {"metadata.generation: 1", "spec.parameters: null"},
		parameters + "{kind: P, name: p}": {"spec.parameters.scope: Cluster"},
	})
	ingressClass().Update(t, kindtest.Table{
		"spec.controller: example.com/other": {
			`spec.controller: Invalid value: "example.com/other": field is immutable`,
		},
		parameters + "{kind: P, name: p}": nil,
		"spec.controller: other": {
			`spec.controller: Invalid value: "other": field is immutable`,
			`spec.controller: Invalid value: "other": must be a domain-prefixed path (such as "acme.io/foo")`,
		},
	})
}

func TestIngressClassCells(t *testing.T) {
	ingressClass().Cells(t, kindtest.Table{
		"": {"nginx", "example.com/ingress", "<none>", "24h"},
		`metadata.annotations["ingressclass.kubernetes.io/is-default-class"]: "true"`: {
			"nginx (default)", "example.com/ingress", "<none>", "24h",
		},
		`metadata.annotations["ingressclass.kubernetes.io/is-default-class"]: "yes"`: {
			"nginx", "example.com/ingress", "<none>", "24h",
		},
		"spec.parameters: {kind: P, name: p}":                {"nginx", "example.com/ingress", "P/p", "24h"},
		"spec.parameters: {apiGroup: a.b, kind: P, name: p}": {"nginx", "example.com/ingress", "P.a.b/p", "24h"},
	})
}
