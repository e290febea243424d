package admissionregistration

import (
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

const everyPod = "{resourceRules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]}"

func validatingAdmissionPolicy() kindtest.Fixture {
	return kindtest.Fixture{Kind: validatingPolicies(api.Deps{}), Object: `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  matchConstraints: ` + everyPod + `
  validations: [{expression: object.metadata.name != ''}]
`}
}

func mutatingAdmissionPolicy() kindtest.Fixture {
	return kindtest.Fixture{Kind: mutatingPolicies(api.Deps{}), Object: `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: p, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  matchConstraints: ` + everyPod + `
  reinvocationPolicy: Never
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/x"}]'}}]
`}
}

func TestPolicyShape(t *testing.T) {
	validatingAdmissionPolicy().Create(t, kindtest.Table{
		"": nil,
		"spec.failurePolicy: Retry": {
			`spec.failurePolicy: Unsupported value: "Retry": supported values: "Fail", "Ignore"`,
		},
		"spec.matchConstraints: null": {"spec.matchConstraints: Required value"},
		"spec.matchConstraints: {}":   {"spec.matchConstraints.resourceRules: Required value"},
		"spec.matchConstraints.matchPolicy: Near": {
			`spec.matchConstraints.matchPolicy: Unsupported value: "Near": supported values: "Equivalent", "Exact"`,
		},
		"spec.matchConstraints.resourceRules[0].resourceNames: [a, a, a/b]": {
			`spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"`,
			`spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "a/b": may not contain '/'`,
		},
		"spec.matchConstraints.excludeResourceRules: [{}]": {
			"spec.matchConstraints.excludeResourceRules[0].operations: Required value",
			"spec.matchConstraints.excludeResourceRules[0].apiGroups: Required value",
			"spec.matchConstraints.excludeResourceRules[0].apiVersions: Required value",
			"spec.matchConstraints.excludeResourceRules[0].resources: Required value",
		},
		"spec.validations: []": {
			"spec.validations: Required value: validations or auditAnnotations must contain at least one item",
			"spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
		},
		"spec.validations: []; spec.auditAnnotations: [{key: a, valueExpression: \"'x'\"}]": nil,
		"spec.paramKind: {apiVersion: v1, kind: ConfigMap}":                                 nil,
		"spec.paramKind: {}": {"spec.paramKind.apiVersion: Required value", "spec.paramKind.kind: Required value"},
		"spec.paramKind: {apiVersion: a/b/c, kind: K_k}": {
			`spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`,
			`spec.paramKind.kind: Invalid value: "K_k": may have mixed case, but should otherwise match: a ` +
				`DNS-1035 label must...`,
		},
		"spec.paramKind: {apiVersion: A/V, kind: K}": {
			`spec.paramKind.apiVersion: Invalid value: "A": a lowercase RFC 1123 subdomain must...`,
			`spec.paramKind.apiVersion: Invalid value: "V": a DNS-1035 label must...`,
		},
		"spec.paramKind: {apiVersion: 'a/', kind: K}": {
			`spec.paramKind.apiVersion: Invalid value: "a/": version must be specified`,
		},
	})
}

func TestValidations(t *testing.T) {
	const first = "spec.validations[0]."
	validatingAdmissionPolicy().Create(t, kindtest.Table{
		first + "expression: ' '": {"spec.validations[0].expression: Required value: expression is not specified"},
		first + "expression: object.": {
			"spec.validations[0].expression: Invalid value: \"object.\": compilation failed: ...",
		},
		first + "expression: '1'": {
			`spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int`,
		},
		first + "expression: params.x": {
			"spec.validations[0].expression: Invalid value: \"params.x\": compilation failed: ...",
		},
		first + "expression: params.x == 1; spec.paramKind: {apiVersion: v1, kind: ConfigMap}": nil,
		first + "expression: variables.a": {
			"spec.validations[0].expression: Invalid value: \"variables.a\": compilation failed: ...",
		},
		first + "expression: variables.a; spec.variables: [{name: a, expression: 'true'}]": nil,
		first + "message: ' '": {`spec.validations[0].` +
			`message: Invalid value: " ": must be non-empty if specified`},
		first + "message: \"a\\nb\"": {
			"spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
		},
		first + "messageExpression: ' '": {
			`spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified`,
		},
		first + "messageExpression: '1'": {
			`spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int`,
		},
		first + "messageExpression: \"'no'\"": nil,
		first + "reason: Gone": {
			`spec.validations[0].reason: Unsupported value: "Gone": supported values: "Forbidden", "Invalid", ` +
				`"RequestEntityTooLarge"`,
		},
		first + "reason: Forbidden": nil,
		"spec.variables: [{name: a-b, expression: ''}]": {
			`spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier`,
			"spec.variables[0].expression: Required value: expression is not specified",
		},
		"spec.variables: [{name: '', expression: 'true'}]": {
			"spec.variables[0].name: Required value: name is not specified",
		},
		"spec.variables: [{name: in, expression: 'true'}]": {
			`spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier`,
		},
		"spec.auditAnnotations: [{key: a, valueExpression: ''}]": {
			"spec.auditAnnotations[0].valueExpression: Required value: valueExpression is not specified",
		},
		"spec.auditAnnotations: [{key: a, valueExpression: '1'}]": {
			`spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of [string ` +
				`null_type] but got int`,
		},
		"spec.auditAnnotations: [{key: 'a b', valueExpression: \"'x'\"}]": {
			`spec.auditAnnotations[0].key: Invalid value: "p/a b": name part must consist...`,
		},
		"spec.auditAnnotations: [{key: a, valueExpression: \"'x'\"}, {key: a, valueExpression: \"'x'\"}]": {
			`spec.auditAnnotations[1].key: Duplicate value: "a"`,
		},
		"spec.auditAnnotations: [{key: a, valueExpression: \"'" + strings.Repeat("x", 5*1024) + "'\"}]": {
			"spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length",
		},
	})
}

func TestMutations(t *testing.T) {
	const mutations = "spec.mutations: "
	mutatingAdmissionPolicy().Create(t, kindtest.Table{
		"":               nil,
		mutations + "[]": {"spec.mutations: Required value: mutations must contain at least one item"},
		mutations + "[{patchType: Merge}]": {
			`spec.mutations[0].patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", ` +
				`"JSONPatch"`,
		},
		mutations + "[{}]": {"spec.mutations[0].patchType: Required value"},
		mutations + "[{patchType: JSONPatch}]": {
			"spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
		},
		mutations + "[{patchType: JSONPatch, jsonPatch: {expression: ' '}}]": {
			"spec.mutations[0].jsonPatch.expression: Required value",
		},
		mutations + "[{patchType: JSONPatch, jsonPatch: {expression: '1'}}]": {
			`spec.mutations[0].jsonPatch.expression: Invalid value: "1": must evaluate to list(JSONPatch) but got int`,
		},
		mutations + "[{patchType: JSONPatch, jsonPatch: {expression: '[]'}, applyConfiguration: {expression: " +
			"'Object{}'}}]": {
			`spec.mutations[0].jsonPatch.expression: Invalid value: "[]": must evaluate to list(JSONPatch) but got ` +
				`list(dyn)`,
			`spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified ` +
				`when patchType is JSONPatch`,
		},
		mutations + "[{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{}'}}]": nil,
		mutations + "[{patchType: ApplyConfiguration}]": {
			"spec.mutations[0].applyConfiguration: Required value: must be specified when patchType is " +
				"ApplyConfiguration",
		},
		mutations + "[{patchType: ApplyConfiguration, jsonPatch: {expression: '[]'}}]": {
			"spec.mutations[0].applyConfiguration: Required value: must be specified when patchType is " +
				"ApplyConfiguration",
			`spec.mutations[0].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ` +
				`ApplyConfiguration`,
		},
		"spec.reinvocationPolicy: ''": {
			"spec.reinvocationPolicy: Required value",
		},
		"spec.reinvocationPolicy: Always": {
			`spec.reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"`,
		},
		"spec.matchConstraints.resourceRules[0].operations: [DELETE]": {
			`spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", ` +
				`"CONNECT", "CREATE", "UPDATE"`,
		},
	})
}

func TestPolicyUpdate(t *testing.T) {
	validatingAdmissionPolicy().Stored(t, "update", kindtest.Table{
		"metadata.generation: 1; status.observedGeneration: 1 => spec.failurePolicy: Ignore; status: {}": {
			"metadata.generation: 2", "status.observedGeneration: 1",
		},
	})
	validatingAdmissionPolicy().Subresource(t, "status", kindtest.Table{
		"status.typeChecking.expressionWarnings: [{fieldRef: 'spec.validations[0].expression', warning: w}]": nil,
		"status.typeChecking.expressionWarnings: [{fieldRef: '', warning: ''}]": {
			"status.typeChecking.expressionWarnings[0].warning: Required value",
			"status.typeChecking.expressionWarnings[0].fieldRef: Required value",
		},
		"status.typeChecking.expressionWarnings: [{fieldRef: 'a[', warning: w}]": {
			`status.typeChecking.expressionWarnings[0].fieldRef: Invalid value: "a[": invalid JSONPath: ` +
				`unterminated array`,
		},
		"status.conditions: [{type: A, status: 'True', reason: R}]": {
			"status.conditions[0].lastTransitionTime: Required value",
		},
	})
	validatingAdmissionPolicy().Stored(t, "create", kindtest.Table{"": {
		"spec.failurePolicy: Fail", "spec.matchConstraints.matchPolicy: Equivalent",
		"spec.matchConstraints.namespaceSelector: {}", "spec.matchConstraints.resourceRules[0].scope: '*'",
	}})
	validatingAdmissionPolicy().Cells(t, kindtest.Table{
		"": {"p", "1", "<unset>", "24h"},
		"spec.paramKind: {apiVersion: v1, kind: ConfigMap}": {"p", "1", "v1/ConfigMap", "24h"},
	})
}

func TestBindings(t *testing.T) {
	validating := kindtest.Fixture{Kind: validatingPolicyBindings(api.Deps{}), Object: `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {policyName: p, validationActions: [Deny]}
`}
	validating.Create(t, kindtest.Table{
		"":                    nil,
		"spec.policyName: ''": {"spec.policyName: Required value"},
		"spec.policyName: P":  {`spec.policyName: Invalid value: "P": a lowercase RFC 1123 subdomain must...`},
		"spec.validationActions: []": {
			"spec.validationActions: Required value: at least one validation action is required",
		},
		"spec.validationActions: [Deny, Audit]": nil,
		"spec.validationActions: [Deny, Warn]": {
			`spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn ` +
				`(repeating the same validation failure information in the API response and headers serves no purpose)`,
		},
		"spec.validationActions: [Audit, Audit, Shout]": {
			`spec.validationActions[1]: Duplicate value: "Audit"`,
			`spec.validationActions[2]: Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"`,
		},
		"spec.paramRef: {}": {
			"spec.paramRef: Required value: one of name or selector must be specified",
			"spec.paramRef.parameterNotFoundAction: Required value",
		},
		"spec.paramRef: {name: a, parameterNotFoundAction: Allow}": nil,
		"spec.paramRef: {name: a/b, parameterNotFoundAction: Skip}": {
			`spec.paramRef.name: Invalid value: "a/b": may not contain '/'`,
			`spec.paramRef.parameterNotFoundAction: Unsupported value: "Skip": supported values: "Deny", "Allow"`,
		},
		"spec.paramRef: {name: a, selector: {}, parameterNotFoundAction: Deny}": {
			"spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
			"spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
		},
		"spec.matchResources.matchPolicy: Near": {
			`spec.matchResources.matchPolicy: Unsupported value: "Near": supported values: "Equivalent", "Exact"`,
		},
	})
	validating.Cells(t, kindtest.Table{
		"":                         {"b", "p", "<unset>", "24h"},
		"spec.paramRef: {name: a}": {"b", "p", "*/a", "24h"},
		"spec.paramRef: {name: a, namespace: ns}": {"b", "p", "ns/a", "24h"},
	})
	mutating := kindtest.Fixture{Kind: mutatingPolicyBindings(api.Deps{}), Object: `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p}
`}
	mutating.Create(t, kindtest.Table{
		"":                    nil,
		"spec.policyName: ''": {"spec.policyName: Required value"},
		"spec.matchResources.resourceRules: [{operations: [DELETE], apiGroups: [''], apiVersions: [v1], " +
			"resources: [pods]}]": {
			`spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", ` +
				`"CONNECT", "CREATE", "UPDATE"`,
		},
	})
}
