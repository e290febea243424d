package rbac

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sameErrors compares errors to how each of those wanted begins.
func sameErrors(t *testing.T, got field.ErrorList, want []string) {
	t.Helper()
	texts := make([]string, len(got))
	for i, err := range got {
		texts[i] = err.Error()
	}
	if !slices.EqualFunc(texts, want, strings.HasPrefix) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
}

func TestValidateRules(t *testing.T) {
	some := []string{"a"}
	for _, test := range []struct {
		name          string
		rule          rbacv1.PolicyRule
		role, cluster []string
	}{
		{"resources", rbacv1.PolicyRule{Verbs: some, APIGroups: []string{""}, Resources: some, ResourceNames: some},
			nil, nil},
		{"paths", rbacv1.PolicyRule{Verbs: some, NonResourceURLs: []string{"/a"}}, []string{
			`rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs`},
			nil},
		{"nothing", rbacv1.PolicyRule{}, []string{
			"rules[0].verbs: Required value: verbs must contain at least one value",
			"rules[0].apiGroups: Required value: resource rules must supply at least one api group",
			"rules[0].resources: Required value: resource rules must supply at least one resource"}, []string{
			"rules[0].verbs: Required value", "rules[0].apiGroups: Required value",
			"rules[0].resources: Required value"}},
		{"paths and groups", rbacv1.PolicyRule{Verbs: some, NonResourceURLs: some, APIGroups: some},
			[]string{"rules[0].nonResourceURLs: Invalid value: ", bothKinds}, []string{bothKinds}},
		{"paths and resources", rbacv1.PolicyRule{Verbs: some, NonResourceURLs: some, Resources: some},
			[]string{"rules[0].nonResourceURLs: Invalid value: ", bothKinds}, []string{bothKinds}},
		{"paths and names", rbacv1.PolicyRule{Verbs: some, NonResourceURLs: some, ResourceNames: some},
			[]string{"rules[0].nonResourceURLs: Invalid value: ", bothKinds}, []string{bothKinds}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules := []rbacv1.PolicyRule{test.rule}
			sameErrors(t, ValidateRole(&rbacv1.Role{Rules: rules}), test.role)
			sameErrors(t, ValidateClusterRole(&rbacv1.ClusterRole{Rules: rules}, nil), test.cluster)
		})
	}
}

const bothKinds = `rules[0].nonResourceURLs: Invalid value: ["a"]: ` +
	"rules cannot apply to both regular resources and non-resource URLs"

// TestValidateAggregation: a label that no object can have is refused in selectors, unless the stored role has such.
func TestValidateAggregation(t *testing.T) {
	role := func(labels ...string) *rbacv1.ClusterRole {
		r := &rbacv1.ClusterRole{AggregationRule: &rbacv1.AggregationRule{}}
		for _, label := range labels {
			r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors,
				metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{label}}}})
		}
		return r
	}
	const at = "aggregationRule.clusterRoleSelectors"
	const value = at + `[1].matchExpressions[0].values[0]: Invalid value: "b!"`
	const selector = at + `[1]: Invalid value: `
	for _, test := range []struct {
		name     string
		new, old *rbacv1.ClusterRole
		want     []string
	}{
		{"none", &rbacv1.ClusterRole{}, nil, nil},
		{"without selectors", role(), nil,
			[]string{at + ": Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"}},
		{"good", role("b", "c"), nil, nil},
		{"bad", role("b", "b!"), nil, []string{value, selector}},
		{"bad after good", role("b", "b!"), role("b"), []string{value, selector}},
		{"bad after none", role("b", "b!"), &rbacv1.ClusterRole{}, []string{value, selector}},
		{"bad as before", role("b", "b!"), role("b!"), []string{selector}},
	} {
		t.Run(test.name, func(t *testing.T) { sameErrors(t, ValidateClusterRole(test.new, test.old), test.want) })
	}
}

func TestValidateBinding(t *testing.T) {
	ref := func(group, kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: group, Kind: kind, Name: name}
	}
	const group = rbacv1.GroupName
	for _, test := range []struct {
		name             string
		ref              rbacv1.RoleRef
		subjects         []rbacv1.Subject
		binding, cluster []string
	}{
		{"cluster role", ref(group, "ClusterRole", "system:node"), nil, nil, nil},
		{"role", ref(group, "Role", "r"), nil, nil,
			[]string{`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`}},
		{"nothing", rbacv1.RoleRef{}, nil, []string{
			`roleRef.apiGroup: Unsupported value: "": supported values: "rbac.authorization.k8s.io"`,
			`roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"`,
			"roleRef.name: Required value"}, []string{"roleRef.apiGroup", "roleRef.kind", "roleRef.name"}},
		{"a name that is a path", ref(group, "ClusterRole", "a/b"), nil,
			[]string{`roleRef.name: Invalid value: "a/b": may not contain '/'`},
			[]string{"roleRef.name: Invalid value"}},
		{"subjects", ref(group, "ClusterRole", "r"), []rbacv1.Subject{
			{Kind: "User", APIGroup: group, Name: "u"}, {Kind: "Group", APIGroup: group, Name: "g"},
			{Kind: "ServiceAccount", Namespace: "n", Name: "a"}}, nil, nil},
		{"account of no namespace", ref(group, "ClusterRole", "r"),
			[]rbacv1.Subject{{Kind: "ServiceAccount", Name: "a"}}, nil,
			[]string{"subjects[0].namespace: Required value"}},
		{"bad subjects", ref(group, "ClusterRole", "r"), []rbacv1.Subject{
			{Kind: "ServiceAccount", APIGroup: group, Namespace: "n", Name: "A"},
			{Kind: "User", Name: "u"}, {Kind: "Group", APIGroup: group}, {Kind: "Robot", Name: "r"}}, []string{
			`subjects[0].name: Invalid value: "A": a lowercase RFC 1123 subdomain`,
			`subjects[0].apiGroup: Unsupported value: "rbac.authorization.k8s.io": supported values: ""`,
			`subjects[1].apiGroup: Unsupported value: "": supported values: "rbac.authorization.k8s.io"`,
			"subjects[2].name: Required value",
			`subjects[3].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`},
			[]string{"subjects[0].name", "subjects[0].apiGroup", "subjects[1].apiGroup", "subjects[2].name",
				"subjects[3].kind"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			sameErrors(t, ValidateBinding(test.ref, test.subjects, true), test.binding)
			sameErrors(t, ValidateBinding(test.ref, test.subjects, false), test.cluster)
		})
	}
}

func TestRoleRefStays(t *testing.T) {
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "a"}
	sameErrors(t, ValidateBindingUpdate(ref, ref), nil)
	other := ref
	other.Name = "b"
	if errs := ValidateBindingUpdate(other, ref); len(errs) != 1 || errs[0].Field != "roleRef" ||
		errs[0].Detail != "cannot change roleRef" {
		t.Errorf("got %v", errs)
	}
}

func TestValidateName(t *testing.T) {
	for name, good := range map[string]bool{
		"system:node": true, "A b": true, "a.": true, ".": false, "..": false, "a/b": false, "a%b": false} {
		if got := ValidateName(name, false); (len(got) == 0) != good {
			t.Errorf("%q: %q", name, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	ref, given := rbacv1.RoleRef{}, rbacv1.RoleRef{APIGroup: "g"}
	DefaultRoleRef(&ref)
	if DefaultRoleRef(&given); ref.APIGroup != rbacv1.GroupName || given.APIGroup != "g" {
		t.Errorf("role references %v, %v", ref, given)
	}
	list := []rbacv1.Subject{{Kind: "User"}, {Kind: "Group"}, {Kind: "ServiceAccount"}, {Kind: "User", APIGroup: "g"}}
	DefaultSubjects(list)
	for i, want := range []string{rbacv1.GroupName, rbacv1.GroupName, "", "g"} {
		if got := list[i].APIGroup; got != want {
			t.Errorf("subject %d: group %q, want %q", i, got, want)
		}
	}
}

// TestSubjectsFromV1alpha1: the version of a subject becomes its group, and the user * all that are authenticated.
func TestSubjectsFromV1alpha1(t *testing.T) {
	old := &rbacv1alpha1.RoleBinding{Subjects: []rbacv1alpha1.Subject{
		{Kind: "User", APIVersion: "x.io/v1", Name: "u"}, {Kind: "Group", Name: "g"},
		{Kind: "ServiceAccount", APIVersion: "v1", Namespace: "n", Name: "a"},
		{Kind: "Robot", APIVersion: "x.io/v1", Name: "r"}, {Kind: "User", Name: "*"}, {Kind: "Group", Name: "*"}}}
	old.RoleRef.Name = "r"
	const group = rbacv1.GroupName
	want := []rbacv1.Subject{
		{Kind: "User", APIGroup: group, Name: "u"}, {Kind: "Group", APIGroup: group, Name: "g"},
		{Kind: "ServiceAccount", Namespace: "n", Name: "a"}, {Kind: "Robot", APIGroup: "x.io", Name: "r"},
		{Kind: "Group", APIGroup: group, Name: "system:authenticated"}, {Kind: "Group", APIGroup: group, Name: "*"}}
	got := RoleBindingFromV1alpha1(old)
	if !slices.Equal(got.Subjects, want) || got.RoleRef.Name != "r" {
		t.Errorf("got %v", got)
	}
	cluster := ClusterRoleBindingFromV1alpha1(&rbacv1alpha1.ClusterRoleBinding{Subjects: old.Subjects,
		RoleRef: old.RoleRef})
	if !slices.Equal(cluster.Subjects, want) || cluster.RoleRef.Name != "r" {
		t.Errorf("of a cluster: %v", cluster)
	}
}

// TestSubjectsInTables: the cells list what is bound by its kind.
func TestSubjectsInTables(t *testing.T) {
	list := []rbacv1.Subject{{Kind: "User", Name: "u"}, {Kind: "ServiceAccount", Namespace: "n", Name: "a"},
		{Kind: "Group", Name: "g"}, {Kind: "User", Name: "v"}}
	ref := rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}
	for _, row := range [][]any{
		RoleBindingRow(&rbacv1.RoleBinding{Subjects: list, RoleRef: ref}),
		ClusterRoleBindingRow(&rbacv1.ClusterRoleBinding{Subjects: list, RoleRef: ref}),
	} {
		if row[1] != "ClusterRole/r" || row[3] != "u, v" || row[4] != "g" || row[5] != "n/a" {
			t.Errorf("got %v", row)
		}
	}
}
