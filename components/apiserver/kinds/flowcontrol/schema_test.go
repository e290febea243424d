package flowcontrol

import (
	"slices"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

type (
	schemaSpec   = flowcontrolv1.FlowSchemaSpec
	subject      = flowcontrolv1.Subject
	resourceRule = flowcontrolv1.ResourcePolicyRule
	urlRule      = flowcontrolv1.NonResourcePolicyRule
)

// schema is a flow schema with the defaults, changed.
func schema(change func(s *schemaSpec)) *flowcontrolv1.FlowSchema {
	s := &flowcontrolv1.FlowSchema{Spec: schemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "l"},
	}}
	s.Name = "s"
	DefaultSchema(s)
	change(&s.Spec)
	return s
}

// ruled is a schema with one rule for all users.
func ruled(resources []resourceRule, urls []urlRule) *flowcontrolv1.FlowSchema {
	return schema(func(s *schemaSpec) {
		s.Rules = []flowcontrolv1.PolicyRulesWithSubjects{{
			Subjects:      []subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "*"}}},
			ResourceRules: resources, NonResourceRules: urls,
		}}
	})
}

func TestValidateSchema(t *testing.T) {
	for _, test := range []struct {
		name   string
		schema *flowcontrolv1.FlowSchema
		want   []string
	}{
		{"defaults", schema(func(*schemaSpec) {}), nil},
		{"first of all but exempt", schema(func(s *schemaSpec) { s.MatchingPrecedence = 2 }), nil},
		{"last", schema(func(s *schemaSpec) { s.MatchingPrecedence = maxPrecedence }), nil},
		{"before exempt", schema(func(s *schemaSpec) { s.MatchingPrecedence = 1 }), []string{
			"spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"}},
		{"before all", schema(func(s *schemaSpec) { s.MatchingPrecedence = -1 }),
			[]string{"spec.matchingPrecedence: Invalid value: -1: must be a positive value"}},
		{"after the last", schema(func(s *schemaSpec) { s.MatchingPrecedence = maxPrecedence + 1 }),
			[]string{"spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"}},
		{"by user", schema(func(s *schemaSpec) {
			s.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{
				Type: flowcontrolv1.FlowDistinguisherMethodByUserType}
		}), nil},
		{"by nothing", schema(func(s *schemaSpec) {
			s.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{}
		}), []string{"spec.distinguisherMethod.type: Unsupported value: "}},
		{"no level", schema(func(s *schemaSpec) { s.PriorityLevelConfiguration.Name = "" }), []string{
			"spec.priorityLevelConfiguration.name: Required value: must reference a priority level"}},
		{"no name of a level", schema(func(s *schemaSpec) { s.PriorityLevelConfiguration.Name = "A" }), []string{
			`spec.priorityLevelConfiguration.name: Invalid value: "A": a lowercase RFC 1123 subdomain`}},
		{"an empty rule", schema(func(s *schemaSpec) {
			s.Rules = make([]flowcontrolv1.PolicyRulesWithSubjects, 1)
		}), []string{"spec.rules[0].subjects: Required value: subjects must contain at least one value",
			"spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"}},
	} {
		t.Run(test.name, func(t *testing.T) { sameErrors(t, ValidateSchema(test.schema), test.want) })
	}
}

// TestMandatorySchemas: those that every cluster has are valid as they are, and can't be changed.
func TestMandatorySchemas(t *testing.T) {
	for _, fixed := range bootstrap.MandatoryFlowSchemas {
		s := fixed.DeepCopy()
		DefaultSchema(s)
		sameErrors(t, ValidateSchema(s), nil)
		s.Spec.MatchingPrecedence += 2
		sameErrors(t, ValidateSchema(s), map[string][]string{
			"exempt":    {"spec: Invalid value: "},
			"catch-all": {"spec.matchingPrecedence: Invalid value: 10002", "spec: Invalid value: "},
		}[s.Name])
	}
}

func TestValidateSubjects(t *testing.T) {
	user, group := &flowcontrolv1.UserSubject{Name: "u"}, &flowcontrolv1.GroupSubject{Name: "g"}
	account := func(namespace, name string) *flowcontrolv1.ServiceAccountSubject {
		return &flowcontrolv1.ServiceAccountSubject{Namespace: namespace, Name: name}
	}
	const at = "spec.rules[0].subjects[0]"
	for _, test := range []struct {
		name    string
		subject subject
		want    []string
	}{
		{"user", subject{Kind: "User", User: user}, nil},
		{"group", subject{Kind: "Group", Group: group}, nil},
		{"account", subject{Kind: "ServiceAccount", ServiceAccount: account("n", "a")}, nil},
		{"all accounts of a namespace", subject{Kind: "ServiceAccount", ServiceAccount: account("n", "*")}, nil},
		{"no user", subject{Kind: "User"}, []string{at + ".user: Required value: user is required"}},
		{"no group", subject{Kind: "Group"}, []string{at + ".group: Required value: group is required"}},
		{"no account", subject{Kind: "ServiceAccount"},
			[]string{at + ".serviceAccount: Required value: serviceAccount is required"}},
		{"user without a name", subject{Kind: "User", User: &flowcontrolv1.UserSubject{}},
			[]string{at + ".user.name: Required value"}},
		{"group without a name", subject{Kind: "Group", Group: &flowcontrolv1.GroupSubject{}},
			[]string{at + ".group.name: Required value"}},
		{"account without names", subject{Kind: "ServiceAccount", ServiceAccount: account("", "")}, []string{
			at + ".serviceAccount.name: Required value",
			at + ".serviceAccount.namespace: Required value: must specify namespace for service account"}},
		{"account of bad names", subject{Kind: "ServiceAccount", ServiceAccount: account("*", "A")}, []string{
			at + `.serviceAccount.name: Invalid value: "A"`, at + `.serviceAccount.namespace: Invalid value: "*"`}},
		{"all three", subject{Kind: "Group", User: user, Group: group, ServiceAccount: account("n", "a")}, []string{
			at + ".serviceAccount: Forbidden: serviceAccount is forbidden when subject kind is not 'ServiceAccount'",
			at + ".user: Forbidden: user is forbidden when subject kind is not 'User'"}},
		{"group of a user", subject{Kind: "User", User: user, Group: group}, []string{
			at + ".group: Forbidden: group is forbidden when subject kind is not 'Group'"}},
		{"unknown kind", subject{Kind: "Robot", User: user}, []string{
			at + `.kind: Unsupported value: "Robot": supported values: "Group", "ServiceAccount", "User"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := ruled(nil, []urlRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}})
			s.Spec.Rules[0].Subjects = []subject{test.subject}
			sameErrors(t, ValidateSchema(s), test.want)
		})
	}
}

func TestValidateResourceRules(t *testing.T) {
	const at = "spec.rules[0].resourceRules[0]"
	all := []string{"*"}
	for _, test := range []struct {
		name string
		rule resourceRule
		want []string
	}{
		{"all", resourceRule{Verbs: all, APIGroups: all, Resources: all, Namespaces: all, ClusterScope: true}, nil},
		{"cluster", resourceRule{Verbs: all, APIGroups: all, Resources: all, ClusterScope: true}, nil},
		{"no namespace", resourceRule{Verbs: all, APIGroups: all, Resources: all}, []string{
			at + ".namespaces: Required value: resource rules that are not cluster scoped must supply"}},
		{"nothing", resourceRule{ClusterScope: true}, []string{at + ".verbs: Required value",
			at + ".apiGroups: Required value",
			at + ".resources: Required value"}},
		{"all and more", resourceRule{Verbs: []string{"*", "get"}, APIGroups: []string{"*", "a"},
			Resources: []string{"*", "a"}, Namespaces: []string{"*", "A"}}, []string{
			at + `.verbs: Invalid value: ["*","get"]: if '*' is present, must not specify other verbs`,
			at + ".apiGroups: Invalid value: ", at + ".resources: Invalid value: ",
			at + ".namespaces: Invalid value: "}},
		{"unknown verb", resourceRule{Verbs: []string{"get", "use"}, APIGroups: all, Resources: all, Namespaces: all},
			[]string{at + `.verbs: Unsupported value: ["get","use"]`}},
		{"bad namespace", resourceRule{Verbs: all, APIGroups: all, Resources: all, Namespaces: []string{"a", "B"}},
			[]string{at + `.namespaces[1]: Invalid value: "B": each member of this list must be '*' or a DNS-`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			sameErrors(t, ValidateSchema(ruled([]resourceRule{test.rule}, nil)), test.want)
		})
	}
}

func TestValidateURLs(t *testing.T) {
	for url, want := range map[string]string{
		"/": "", "/a": "", "/a/*": "", "*": "", "/a/": "",
		"":      "must not be empty",
		"a":     "must start with slash",
		"/a b":  "must not contain white-space",
		"/a//b": "must not contain double slash",
		"/a*":   "wildcard can only do suffix matching",
		"/*/a":  "wildcard can only do suffix matching",
		"/*/*":  "wildcard can only do suffix matching",
	} {
		var errs []string
		if want != "" {
			errs = []string{`spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "` +
				url + `": ` + want}
		}
		rule := urlRule{Verbs: []string{"get"}, NonResourceURLs: []string{url}}
		sameErrors(t, ValidateSchema(ruled(nil, []urlRule{rule})), errs)
	}
}

// TestSchemaOrder: schemas are shown as they are matched, by precedence and then by name.
func TestSchemaOrder(t *testing.T) {
	of := func(name string, precedence int32) *flowcontrolv1.FlowSchema {
		s := schema(func(s *schemaSpec) { s.MatchingPrecedence = precedence })
		s.Name = name
		return s
	}
	list := []*flowcontrolv1.FlowSchema{of("c", 5), of("a", 900), of("b", 5)}
	slices.SortFunc(list, SchemaOrder)
	if list[0].Name != "b" || list[1].Name != "c" || list[2].Name != "a" {
		t.Errorf("order %s, %s, %s", list[0].Name, list[1].Name, list[2].Name)
	}
}
