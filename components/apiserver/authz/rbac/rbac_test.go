package rbac

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func clusterBinding(name, roleName string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName}}
}

func roleBinding(namespace, name, kind, roleName string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: roleName}}
}

func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: strings.Split(groups, ","),
		Resources: strings.Split(resources, ","), ResourceNames: names}
}

func userSubject(name string) rbacv1.Subject  { return rbacv1.Subject{Kind: "User", Name: name} }
func groupSubject(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }
func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

// told is who hears of changes.
type told interface {
	ClusterRoleChanged(old, new *rbacv1.ClusterRole)
	RoleChanged(old, new *rbacv1.Role)
	ClusterRoleBindingChanged(old, new *rbacv1.ClusterRoleBinding)
	RoleBindingChanged(old, new *rbacv1.RoleBinding)
}

// stored is an Authorizer that has heard of all that is in a store.
type stored struct {
	*Authorizer
	objectstest.Store
}

func (s *stored) ClusterRoleChanged(old, new *rbacv1.ClusterRole) {
	s.Put(rbacv1.Resource("clusterroles"), new)
	s.Authorizer.ClusterRoleChanged(old, new)
}

func (s *stored) RoleChanged(old, new *rbacv1.Role) {
	s.Put(rbacv1.Resource("roles"), new)
	s.Authorizer.RoleChanged(old, new)
}

func (s *stored) ClusterRoleBindingChanged(old, new *rbacv1.ClusterRoleBinding) {
	s.Put(rbacv1.Resource("clusterrolebindings"), new)
	s.Authorizer.ClusterRoleBindingChanged(old, new)
}

func (s *stored) RoleBindingChanged(old, new *rbacv1.RoleBinding) {
	s.Put(rbacv1.Resource("rolebindings"), new)
	s.Authorizer.RoleBindingChanged(old, new)
}

func (s *stored) escalation() *Escalation {
	return &Escalation{Rules: s.Authorizer, Stored: &s.Store, Authorizer: s.Authorizer}
}

func storedFixture() *stored {
	s := &stored{Authorizer: New()}
	fill(s)
	return s
}

func fixture() *Authorizer {
	r := New()
	fill(r)
	return r
}

func fill(r told) {
	r.ClusterRoleChanged(nil, clusterRole("reader", rule("get,list", "", "pods,pods/log")))
	r.ClusterRoleChanged(nil,
		clusterRole("scaler", rule("update", "*", "*/scale"), rule("*", "apps", "deployments", "web")))
	r.ClusterRoleChanged(nil, clusterRole("admin", everything...))
	r.ClusterRoleChanged(nil,
		clusterRole("metrics", rbacv1.PolicyRule{Verbs: []string{"get"},
			NonResourceURLs: []string{"/metrics", "/debug/*"}}))
	r.RoleChanged(nil, role("ns", "local", rule("create", "", "configmaps")))
	r.ClusterRoleBindingChanged(nil, clusterBinding("readers", "reader", groupSubject("devs")))
	r.ClusterRoleBindingChanged(nil, clusterBinding("metrics", "metrics", userSubject("prom")))
	r.ClusterRoleBindingChanged(nil, clusterBinding("root", "admin", userSubject("root")))
	r.RoleBindingChanged(nil, roleBinding("ns", "scalers", "ClusterRole", "scaler", userSubject("jane")))
	r.RoleBindingChanged(nil,
		roleBinding("ns", "locals", "Role", "local", account("", "builder"), account("other", "helper")))
	r.RoleBindingChanged(nil, roleBinding("ns", "dangling", "Role", "gone", userSubject("lost")))
}

func ask(u string, groups []string, verb, namespace, group, resource, name string) authorizer.AttributesRecord {
	resource, sub, _ := strings.Cut(resource, "/")
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: u, Groups: groups}, Verb: verb,
		Namespace: namespace,
		APIGroup:  group, Resource: resource, Subresource: sub, Name: name, ResourceRequest: true}
}

func TestAuthorize(t *testing.T) {
	devs := []string{"devs"}
	for _, tt := range []struct {
		name   string
		a      authorizer.AttributesRecord
		want   bool
		reason string
	}{
		{"group, any namespace", ask("x", devs, "list", "any", "", "pods", ""), true,
			`RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "devs"`},
		{"group, cluster", ask("x", devs, "list", "", "", "pods", ""), true, ""},
		{"subresource", ask("x", devs, "get", "ns", "", "pods/log", "p"), true, ""},
		{"other subresource", ask("x", devs, "get", "ns", "", "pods/exec", "p"), false, ""},
		{"other verb", ask("x", devs, "delete", "ns", "", "pods", "p"), false, ""},
		{"other group of the API", ask("x", devs, "get", "ns", "metrics.k8s.io", "pods", "p"), false, ""},
		{"nobody", ask("x", nil, "get", "ns", "", "pods", "p"), false, ""},
		{"cluster role in namespace", ask("jane", nil, "update", "ns", "apps", "deployments/scale", "any"), true,
			`RBAC: allowed by RoleBinding "scalers/ns" of ClusterRole "scaler" to User "jane"`},
		{"but not in another", ask("jane", nil, "update", "other", "apps", "deployments/scale", "any"), false, ""},
		{"nor for the cluster", ask("jane", nil, "update", "", "apps", "deployments/scale", "any"), false, ""},
		{"resource name", ask("jane", nil, "delete", "ns", "apps", "deployments", "web"), true, ""},
		{"other resource name", ask("jane", nil, "delete", "ns", "apps", "deployments", "db"), false, ""},
		{"create has no name", ask("jane", nil, "create", "ns", "apps", "deployments", ""), false, ""},
		{"account of the binding's namespace",
			ask("system:serviceaccount:ns:builder", nil, "create", "ns", "", "configmaps", ""), true,
			`RBAC: allowed by RoleBinding "locals/ns" of Role "local" to ServiceAccount "builder/ns"`},
		{"account of another namespace",
			ask("system:serviceaccount:other:helper", nil, "create", "ns", "", "configmaps", ""), true, ""},
		{"account of the wrong namespace",
			ask("system:serviceaccount:other:builder", nil, "create", "ns", "", "configmaps", ""), false, ""},
		{"missing role", ask("lost", nil, "get", "ns", "", "pods", ""), false,
			`RBAC: role.rbac.authorization.k8s.io "gone" not found`},
		{"everything", ask("root", nil, "frob", "ns", "example.com", "widgets/x", "n"), true, ""},
		{"url", authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "prom"}, Verb: "get", Path: "/metrics"}, true,
			""},
		{"url prefix", authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "prom"}, Verb: "get",
			Path: "/debug/pprof/heap"}, true, ""},
		{"other url", authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "prom"}, Verb: "get",
			Path: "/metrics/slis"}, false, ""},
		{"url, other verb", authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "prom"}, Verb: "post",
			Path: "/metrics"}, false, ""},
		{"no user", authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decision, reason, err := fixture().Authorize(context.Background(), tt.a)
			if err != nil || (decision == authorizer.DecisionAllow) != tt.want || decision == authorizer.DecisionDeny {
				t.Errorf("decision %v, reason %q, error %v", decision, reason, err)
			}
			if tt.reason != "" && reason != tt.reason {
				t.Errorf("reason %q, want %q", reason, tt.reason)
			}
		})
	}
}

func TestChangesAreFollowed(t *testing.T) {
	r := fixture()
	list := ask("x", []string{"devs"}, "list", "ns", "", "pods", "")
	check := func(when string, a authorizer.AttributesRecord, want bool) {
		t.Helper()
		if decision, _, _ := r.Authorize(context.Background(), a); (decision == authorizer.DecisionAllow) != want {
			t.Errorf("%s: %v", when, decision)
		}
	}
	readers := clusterBinding("readers", "reader", groupSubject("devs"))
	check("before", list, true)
	moved := clusterBinding("readers", "reader", groupSubject("ops"))
	r.ClusterRoleBindingChanged(readers, moved)
	check("subject taken away", list, false)
	check("subject added", ask("x", []string{"ops"}, "list", "ns", "", "pods", ""), true)
	r.ClusterRoleBindingChanged(moved, readers)
	check("subject back", list, true)
	reader := clusterRole("reader", rule("get,list", "", "pods,pods/log"))
	r.ClusterRoleChanged(reader, clusterRole("reader", rule("get", "", "pods")))
	check("rule taken away", list, false)
	r.ClusterRoleChanged(reader, reader)
	check("rule back", list, true)
	r.ClusterRoleChanged(reader, nil)
	check("role deleted", list, false)
	r.ClusterRoleChanged(nil, reader)
	r.ClusterRoleBindingChanged(readers, nil)
	check("binding deleted", list, false)
	locals := roleBinding("ns", "locals", "Role", "local", account("", "builder"), account("other", "helper"))
	create := ask("system:serviceaccount:ns:builder", nil, "create", "ns", "", "configmaps", "")
	check("account", create, true)
	r.RoleBindingChanged(locals, nil)
	check("role binding deleted", create, false)
	if len(r.index.bindings["ns"]) != 2 {
		t.Errorf("left behind: %v", r.index.bindings["ns"])
	}
}

func TestRulesFor(t *testing.T) {
	resources, urls, incomplete, err := fixture().RulesFor(context.Background(),
		&user.DefaultInfo{Name: "root", Groups: []string{"devs"}}, "ns")
	if err != nil || incomplete || len(resources) != 2 || len(urls) != 1 {
		t.Errorf("%v %v %v %v", resources, urls, incomplete, err)
	}
	if _, _, _, err := fixture().RulesFor(context.Background(), &user.DefaultInfo{Name: "lost"}, "ns"); err == nil {
		t.Error("a dangling binding went unnoticed")
	}
}

func TestEscalation(t *testing.T) {
	r := storedFixture()
	r.ClusterRoleChanged(nil, clusterRole("can-escalate", rule("escalate", rbacv1.GroupName, "clusterroles")))
	r.ClusterRoleChanged(nil, clusterRole("can-bind", rule("bind", rbacv1.GroupName, "clusterroles", "admin")))
	r.ClusterRoleBindingChanged(nil, clusterBinding("e", "can-escalate", userSubject("escalator")))
	r.RoleBindingChanged(nil, roleBinding("ns", "b", "ClusterRole", "can-bind", userSubject("binder")))
	e := r.escalation()
	ctx := context.Background()
	create := authorizer.AttributesRecord{APIGroup: rbacv1.GroupName, APIVersion: "v1", Resource: "clusterroles",
		ResourceRequest: true}

	for _, tt := range []struct {
		name       string
		u          user.DefaultInfo
		rules      []rbacv1.PolicyRule
		aggregates bool
		want       string // part of the error; "" means allowed
	}{
		{"what one has", user.DefaultInfo{Name: "x", Groups: []string{"devs"}},
			[]rbacv1.PolicyRule{rule("get", "", "pods")}, false, ""},
		{"more than one has", user.DefaultInfo{Name: "x", Groups: []string{"devs"}},
			[]rbacv1.PolicyRule{rule("get,delete,watch", "", "pods")}, false,
			"user \"x\" (groups=[\"devs\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], " +
				"Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}"},
		{"masters", user.DefaultInfo{Name: "x", Groups: []string{"system:masters"}}, everything, true, ""},
		{"escalate", user.DefaultInfo{Name: "escalator"}, everything, true, ""},
		{"aggregation by the almighty", user.DefaultInfo{Name: "root"}, nil, true, ""},
		{"aggregation by others", user.DefaultInfo{Name: "x", Groups: []string{"devs"}}, nil, true,
			"must have cluster-admin privileges to use the aggregationRule"},
		{"nothing at all", user.DefaultInfo{Name: "nobody"}, nil, false, ""},
	} {
		t.Run("role/"+tt.name, func(t *testing.T) {
			err := e.CheckRole(ctx, &tt.u, create, "new", tt.rules, tt.aggregates)
			if (err == nil) != (tt.want == "") ||
				(err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tt.want))) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}

	clusterRef := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	for _, tt := range []struct {
		name, u, namespace string
		ref                rbacv1.RoleRef
		is                 func(error) bool
	}{
		{"what one has", "root", "", clusterRef("admin"), nil},
		{"more than one has", "jane", "ns", clusterRef("admin"), apierrors.IsForbidden},
		{"leave to bind", "binder", "ns", clusterRef("admin"), nil},
		{"leave to bind elsewhere", "binder", "other", clusterRef("admin"), apierrors.IsForbidden},
		{"leave to bind another", "binder", "ns", clusterRef("reader"), apierrors.IsForbidden},
		{"missing role", "jane", "", clusterRef("gone"), apierrors.IsNotFound},
		{"unknown kind", "jane", "", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Group"},
			func(err error) bool { return strings.Contains(err.Error(), "unsupported role reference kind") }},
		{"role in no namespace", "jane", "", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "x"},
			apierrors.IsBadRequest},
	} {
		t.Run("binding/"+tt.name, func(t *testing.T) {
			err := e.CheckBinding(ctx, &user.DefaultInfo{Name: tt.u}, tt.namespace, "new", tt.ref)
			if (tt.is == nil) != (err == nil) || (tt.is != nil && !tt.is(err)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A binding counts once, however many of its subjects are the user, and names the first of them.
func TestBindingOfSeveralSubjects(t *testing.T) {
	r := fixture()
	r.RoleBindingChanged(nil,
		roleBinding("ns", "both", "ClusterRole", "reader", userSubject("other"), groupSubject("ops"),
			userSubject("sam"), groupSubject("devs")))
	r.RoleBindingChanged(nil, roleBinding("ns", "twice", "Role", "gone", userSubject("sam"), groupSubject("ops")))
	for _, tt := range []struct {
		u      user.DefaultInfo
		reason string
	}{
		{user.DefaultInfo{Name: "sam", Groups: []string{"ops"}}, `Group "ops"`},
		{user.DefaultInfo{Name: "sam"}, `User "sam"`},
		{user.DefaultInfo{Name: "other", Groups: []string{"ops"}}, `User "other"`},
	} {
		_, reason, _ := r.Authorize(t.Context(), ask(tt.u.Name, tt.u.Groups, "get", "ns", "", "pods", "p"))
		if want := `RBAC: allowed by RoleBinding "both/ns" of ClusterRole "reader" to ` + tt.reason; reason != want {
			t.Errorf("%v: %s, want %s", tt.u, reason, want)
		}
		if rules, _ := r.Rules(&tt.u, "ns"); len(rules) != 1 {
			t.Errorf("%v: %v", tt.u, rules)
		}
	}
	_, reason, _ := r.Authorize(t.Context(), ask("sam", []string{"ops"}, "delete", "ns", "", "pods", "p"))
	if want := `RBAC: role.rbac.authorization.k8s.io "gone" not found`; reason != want {
		t.Errorf("%s, want %s", reason, want)
	}
}

// TestEscalationTexts: verbs that are asked for twice are told twice, and roles that are missing by the resource that
// is written.
func TestEscalationTexts(t *testing.T) {
	r := storedFixture()
	missing := func(name string) *rbacv1.ClusterRoleBinding { return clusterBinding(name, name, groupSubject("some")) }
	r.ClusterRoleBindingChanged(nil, missing("gone-1"))
	u := user.DefaultInfo{Name: "x", Groups: []string{"some"}}
	const wants = `user "x" (groups=["some"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	e := r.escalation()
	check := func(err error, want string) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	roles := authorizer.AttributesRecord{APIGroup: rbacv1.GroupName, Namespace: "ns", Resource: "roles",
		ResourceRequest: true}
	check(e.CheckRole(t.Context(), &u, roles, "new",
		[]rbacv1.PolicyRule{rule("get,list", "", "pods"), rule("get", "", "pods")}, false),
		`roles.rbac.authorization.k8s.io "new" is forbidden: `+wants+
			`{APIGroups:[""], Resources:["pods"], Verbs:["get" "list" "get"]}; `+
			`resolution errors: [roles.rbac.authorization.k8s.io "gone-1" not found]`)
	r.ClusterRoleBindingChanged(nil, missing("gone-2"))
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metrics"}
	check(e.CheckBinding(t.Context(), &u, "", "new", ref),
		`clusterrolebindings.rbac.authorization.k8s.io "new" is forbidden: `+wants+
			`{NonResourceURLs:["/debug/*"], Verbs:["get"]}`+"\n"+
			`{NonResourceURLs:["/metrics"], Verbs:["get"]}; resolution errors: [[`+
			`clusterrolebindings.rbac.authorization.k8s.io "gone-1" not found, clusterrolebindings.rbac.authorization.k8s.io "gone-2" not found]]`)
	ref.Name = ""
	check(e.CheckBinding(t.Context(), &u, "", "new", ref), "Name parameter required.")
	ref.Name = "a/b"
	check(e.CheckBinding(t.Context(), &u, "", "new", ref), `Name parameter invalid: "a/b": may not contain '/'`)
}

// Leave to escalate or to bind what has a name is no leave for a request that has none, and none for what isn't a role.
func TestEscalationByName(t *testing.T) {
	r := storedFixture()
	r.ClusterRoleChanged(nil,
		clusterRole("some", rule("escalate", rbacv1.GroupName, "clusterroles", "mine"),
			rule("bind", rbacv1.GroupName, "roles")))
	r.ClusterRoleBindingChanged(nil, clusterBinding("some", "some", userSubject("x")))
	e, u := r.escalation(), &user.DefaultInfo{Name: "x"}
	a := authorizer.AttributesRecord{APIGroup: rbacv1.GroupName, APIVersion: "*", Resource: "clusterroles",
		ResourceRequest: true}
	for name, allowed := range map[string]bool{"": false, "other": false, "mine": true} {
		a.Name = name
		if err := e.CheckRole(t.Context(), u, a, "mine", everything, false); (err == nil) != allowed {
			t.Errorf("%q: %v", name, err)
		}
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Other", Name: "y"}
	if err := e.CheckBinding(t.Context(), u, "ns", "new", ref); err == nil ||
		err.Error() != `unsupported role reference kind: "Other"` {
		t.Error(err)
	}
}
