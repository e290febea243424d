package admissionregistration

import (
	"fmt"
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func mutatingConfiguration() kindtest.Fixture {
	return kindtest.Fixture{Kind: mutatingWebhooks(), Object: `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: m, creationTimestamp: "2026-01-02T12:00:00Z"}
webhooks:
- name: a.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: ns, name: hook}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
`}
}

func TestWebhookValidation(t *testing.T) {
	const hook = "webhooks[0]."
	mutatingConfiguration().Create(t, kindtest.Table{
		"":                nil,
		hook + "name: ''": {"webhooks[0].name: Required value"},
		hook + "name: example": {
			`webhooks[0].name: Invalid value: "example": should be a domain with at least three segments separated ` +
				`by dots`,
		},
		hook + "name: a.b": {
			`webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by ` +
				`dots`,
		},
		hook + "failurePolicy: Retry": {
			`webhooks[0].failurePolicy: Unsupported value: "Retry": supported values: "Fail", "Ignore"`,
		},
		hook + "matchPolicy: Near": {
			`webhooks[0].matchPolicy: Unsupported value: "Near": supported values: "Equivalent", "Exact"`,
		},
		hook + "sideEffects: null": {
			"webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
		},
		hook + "sideEffects: Some": {
			`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`,
		},
		hook + "sideEffects: NoneOnDryRun": nil,
		hook + "timeoutSeconds: 0": {
			"webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds",
		},
		hook + "timeoutSeconds: 31": {
			"webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
		},
		hook + "timeoutSeconds: 30": nil,
		hook + "namespaceSelector.matchLabels: {a: 'b c'}": {
			`webhooks[0].namespaceSelector.matchLabels: Invalid value: "b c": a valid label must...`,
		},
		hook + "objectSelector.matchExpressions: [{key: a, operator: Near}]": {
			`webhooks[0].objectSelector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector ` +
				`operator`,
		},
		hook + "reinvocationPolicy: Always": {
			`webhooks[0].reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"`,
		},
		hook + "reinvocationPolicy: IfNeeded": nil,
		hook + "admissionReviewVersions: []": {
			"webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
		},
		hook + "admissionReviewVersions: [v2]": {
			`webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1`,
		},
		hook + "admissionReviewVersions: [v2, v1]": nil,
		hook + "admissionReviewVersions: [v1, v1, V1]": {
			`webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version`,
			`webhooks[0].admissionReviewVersions[2]: Invalid value: "V1": a DNS-1035 label must...`,
		},
		hook + "matchConditions: [{name: a, expression: 'true'}]": nil,
		hook + "matchConditions: [{name: a, expression: object.x}]": {
			`webhooks[0].matchConditions[0].expression: Invalid value: "object.x": must evaluate to bool but got dyn`,
		},
		hook + "matchConditions: [{name: '', expression: ' '}]": {
			"webhooks[0].matchConditions[0].expression: Required value",
			"webhooks[0].matchConditions[0].name: Required value",
		},
		hook + "matchConditions: [{name: a, expression: 'true'}, {name: a, expression: 'true'}]": {
			`webhooks[0].matchConditions[1].name: Duplicate value: "a"`,
		},
		hook + "matchConditions: [{name: 'a b', expression: 'true'}]": {
			`webhooks[0].matchConditions[0].name: Invalid value: "a b": name part must consist...`,
		},
	})
}

func TestWebhookClients(t *testing.T) {
	const client = "webhooks[0].clientConfig: "
	mutatingConfiguration().Create(t, kindtest.Table{
		client + "{}": {"webhooks[0].clientConfig: Required value: exactly one of url or service is required"},
		client + "{url: 'https://a.example.com/x'}": nil,
		client + "{url: 'https://a.example.com', service: {namespace: ns, name: hook}}": {
			"webhooks[0].clientConfig: Required value: exactly one of url or service is required",
		},
		client + "{url: 'http://a.example.com'}": {
			`webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired ` +
				`format: https://host[/path]`,
		},
		client + "{url: 'https://user@a.example.com'}": {
			`webhooks[0].clientConfig.url: Invalid value: "user": user information is not permitted in the URL`,
		},
		client + "{url: 'https://a.example.com/?q=1#f'}": {
			`webhooks[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL`,
			`webhooks[0].clientConfig.url: Invalid value: "q=1": query parameters are not permitted in the URL`,
		},
		client + "{service: {namespace: ns, name: hook, port: 0}}": {
			"webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and " +
				"65535, inclusive",
		},
		client + "{service: {namespace: ns, name: hook, path: x}}": {
			`webhooks[0].clientConfig.service.path: Invalid value: "x": must start with a '/'`,
			`webhooks[0].clientConfig.service.path: Invalid value: "x": segment[0] may not be empty`,
		},
		client + "{service: {namespace: ns, name: hook, path: /a//b}}": {
			`webhooks[0].clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty`,
		},
		client + "{service: {namespace: ns, name: ''}}": {
			"webhooks[0].clientConfig.service.namespace: Required value",
		},
	})
}

func TestWebhookRules(t *testing.T) {
	rule := func(field, value string) string { return "webhooks[0].rules[0]." + field + ": " + value }
	resources := func(want string) []string { return []string{"webhooks[0].rules[0].resources" + want} }
	mutatingConfiguration().Create(t, kindtest.Table{
		rule("operations", "[]"):    {"webhooks[0].rules[0].operations: Required value"},
		rule("operations", "['*']"): nil,
		rule("operations", "['*', CREATE]"): {"webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: " +
			"if '*' is present, must not specify other operations"},
		rule("operations", "[READ]"): {"webhooks[0].rules[0].operations[0]: Unsupported value: \"READ\": " +
			"supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\""},
		rule("apiGroups", "[]"): {"webhooks[0].rules[0].apiGroups: Required value"},
		rule("apiGroups", "['*', apps]"): {"webhooks[0].rules[0].apiGroups: Invalid value: [\"*\",\"apps\"]: " +
			"if '*' is present, must not specify other API groups"},
		rule("apiVersions", "['']"): {"webhooks[0].rules[0].apiVersions[0]: Required value"},
		rule("apiVersions", "[v1, '*']"): {"webhooks[0].rules[0].apiVersions: Invalid value: [\"v1\",\"*\"]: " +
			"if '*' is present, must not specify other API versions"},
		rule("scope", "Galaxy"): {"webhooks[0].rules[0].scope: Unsupported value: \"Galaxy\": " +
			"supported values: \"*\", \"Cluster\", \"Namespaced\""},
		rule("resources", "[]"):               resources(": Required value"),
		rule("resources", "['']"):             resources("[0]: Required value"),
		rule("resources", "[pods, pods/log]"): nil,
		rule("resources", "['*/*']"):          nil,
		rule("resources", "['*/*', pods]"): resources(": Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, " +
			"must " +
			"not specify other resources"),
		rule("resources", "['*', pods]"): resources(": Invalid value: [\"*\",\"pods\"]: if '*' is present, must not " +
			"specify other resources without subresources"),
		rule("resources", "['*', pods/log]"): nil,
		rule("resources", "['pods/*', pods/log]"): resources("[1]: Invalid value: \"pods/log\": if 'pods/*' is " +
			"present, must not specify pods/log"),
		rule("resources", "['*/log', pods/log]"): resources("[1]: Invalid value: \"pods/log\": if '*/log' is " +
			"present, must not specify pods/log"),
	})
}

func TestWebhookDefaults(t *testing.T) {
	mutatingConfiguration().Stored(t, "create", kindtest.Table{
		"": {
			"webhooks[0].failurePolicy: Fail", "webhooks[0].matchPolicy: Equivalent", "webhooks[0].timeoutSeconds: 10",
			"webhooks[0].reinvocationPolicy: Never", "webhooks[0].clientConfig.service.port: 443",
			"webhooks[0].rules[0].scope: '*'", "webhooks[0].namespaceSelector: {}", "webhooks[0].objectSelector: {}",
			"metadata.generation: 1",
		},
		"webhooks[0].failurePolicy: Ignore; webhooks[0].timeoutSeconds: 3": {
			"webhooks[0].failurePolicy: Ignore", "webhooks[0].timeoutSeconds: 3",
		},
	})
	mutatingConfiguration().Stored(t, "update", kindtest.Table{
		"metadata.generation: 1 => webhooks[0].timeoutSeconds: 5": {"metadata.generation: 2"},
		"metadata.generation: 1 => metadata.labels.a: b":          {"metadata.generation: 1"},
	})
}

// TestWebhookUpdate: what was wrong before may stay wrong, as what it is may have been valid once.
func TestWebhookUpdate(t *testing.T) {
	const two = "webhooks[0].name: a.example.com"
	mutatingConfiguration().Update(t, kindtest.Table{
		two: nil,
		"webhooks[0].sideEffects: Some => webhooks[0].sideEffects: Unknown": nil,
		"webhooks[0].sideEffects: None => webhooks[0].sideEffects: Some": {
			`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`,
		},
		"webhooks[0].admissionReviewVersions: [v2] => webhooks[0].admissionReviewVersions: [v3]": nil,
		"webhooks[0].admissionReviewVersions: [v2] => webhooks[0].admissionReviewVersions: []": {
			"webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
		},
		"webhooks[0].matchConditions: [{name: a, expression: x}] => webhooks[0].timeoutSeconds: 5": nil,
		"webhooks[0].namespaceSelector: {matchExpressions: [{key: a, operator: In, values: ['b c']}]}" +
			" => webhooks[0].timeoutSeconds: 5": nil,
	})
}

func TestManyMatchConditions(t *testing.T) {
	list := func(n int) string {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf("{name: c%d, expression: 'true'}", i)
		}
		return "webhooks[0].matchConditions: [" + strings.Join(items, ", ") + "]"
	}
	mutatingConfiguration().Create(t, kindtest.Table{
		list(64): nil,
		list(65): {"webhooks[0].matchConditions: Too many: 65: must have at most 64 items"},
	})
}

func TestConfigurationCells(t *testing.T) {
	mutatingConfiguration().Cells(t, kindtest.Table{"": {"m", "1", "24h"}, "webhooks: []": {"m", "0", "24h"}})
	mutatingConfiguration().Warnings(t, "create", kindtest.Table{
		"": nil,
		"metadata.name: a.static.k8s.io": {
			`metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based ` +
				`configurations and cannot be managed via the API`,
		},
	})
}
