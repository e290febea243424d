package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	policiesv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// escalating lets alice write roles and bindings, escalate the ClusterRole "mine", and read configmaps.
func escalating(t *testing.T, f *fixture) (admin, alice kubernetes.Interface) {
	t.Helper()
	admin, alice = f.client(t), f.clientOf(t, f.as("alice"))
	all := []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "writing"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{rbacv1.GroupName}, Resources: all, Verbs: []string{"create", "update", "patch"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"mine"},
			Verbs: []string{"escalate"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
	}}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "authorization knows of alice", func() bool {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "configmaps",
				Namespace: "default"}}}
		got, err := alice.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review,
			metav1.CreateOptions{})
		return err == nil && got.Status.Allowed
	})
	return admin, alice
}

// TestEscalation: whatever the verb, a role with more than the writer has is refused, and the leave to escalate one by
// its name is none for a POST. Lifecycle of namespaces comes first, validation after.
func TestEscalation(t *testing.T) {
	f := start(t)
	admin, alice := escalating(t, f)
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const root = "/apis/rbac.authorization.k8s.io/v1/"
	body := func(kind, name, resource string) string {
		return fmt.Sprintf(
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{"name":%q},"rules":[{"apiGroups":[""],"resources":[%q],"verbs":["get"]}]}`,
			kind,
			name,
			resource,
		)
	}
	const refused = "is attempting to grant RBAC permissions not currently held:\n" +
		`{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`
	const jsonType, apply, merge = "application/json", "application/apply-patch+yaml", "application/merge-patch+json"
	for _, tt := range []struct {
		name, method, path, media, body string
		code                            int
		want                            string
	}{
		{"POST", http.MethodPost, "clusterroles", jsonType, body("ClusterRole", "mine", "secrets"), 403, refused},
		{"POST of what one has", http.MethodPost, "clusterroles", jsonType, body("ClusterRole", "held", "configmaps"),
			201, ""},
		{"PUT that creates", http.MethodPut, "clusterroles/new", jsonType, body("ClusterRole", "new", "secrets"), 403,
			refused},
		{"PUT that creates with leave", http.MethodPut, "clusterroles/mine", jsonType,
			body("ClusterRole", "mine", "secrets"), 201, ""},
		{"PUT", http.MethodPut, "clusterroles/other", jsonType, body("ClusterRole", "other", "secrets"), 403, refused},
		{"PUT with leave", http.MethodPut, "clusterroles/mine", jsonType, body("ClusterRole", "mine", "pods"), 200, ""},
		{"PATCH", http.MethodPatch, "clusterroles/other", merge, body("ClusterRole", "other", "secrets"), 403, refused},
		{"PATCH with leave", http.MethodPatch, "clusterroles/mine", merge, body("ClusterRole", "mine", "secrets"), 200,
			""},
		{"apply that creates", http.MethodPatch, "clusterroles/new?fieldManager=x", apply,
			body("ClusterRole", "new", "secrets"), 403, refused},
		{"apply", http.MethodPatch, "clusterroles/other?fieldManager=x", apply, body("ClusterRole", "other", "secrets"),
			403, refused},
		{"finalizers alone", http.MethodPatch, "clusterroles/cluster-admin", merge, `{"metadata":{"finalizers":[]}}`,
			200, ""},
		{"no namespace", http.MethodPost, "namespaces/none/roles", jsonType, body("Role", "r", "secrets"), 404,
			`namespaces "none" not found`},
		{"invalid as well", http.MethodPost, "namespaces/default/roles", jsonType, body("Role", "a%b", "secrets"), 403,
			refused},
		{"invalid only", http.MethodPost, "namespaces/default/roles", jsonType, body("Role", "a%b", "configmaps"), 422,
			"metadata.name"},
	} {
		var code int
		got, _ := alice.RbacV1().RESTClient().Verb(tt.method).RequestURI(root+tt.path).SetHeader("Content-Type",
			tt.media).Body([]byte(tt.body)).
			Do(t.Context()).StatusCode(&code).Raw()
		var said metav1.Status
		if err := json.Unmarshal(got, &said); code != tt.code ||
			tt.want != "" && (err != nil || !strings.Contains(said.Message, tt.want)) {
			t.Errorf("%s: %d, %s", tt.name, code, got)
		}
	}
}

// Rules that a policy brings in count as the writer's own, and those that it takes out don't.
func TestEscalationAfterPolicies(t *testing.T) {
	f := start(t)
	admin, alice := escalating(t, f)
	api := admin.AdmissionregistrationV1()
	for name, resource := range map[string]string{"more": "secrets", "less": "configmaps"} {
		made := &policiesv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: policiesv1.MutatingAdmissionPolicySpec{
				MatchConstraints: matching("roles"), ReinvocationPolicy: policiesv1.NeverReinvocationPolicy,
				Mutations: []policiesv1.Mutation{
					{PatchType: policiesv1.PatchTypeJSONPatch, JSONPatch: &policiesv1.JSONPatch{
						Expression: fmt.Sprintf(`[JSONPatch{op: "replace", path: "/rules/0/resources/0", value: %q}]`,
							resource)}}},
			}}
		if _, err := api.MutatingAdmissionPolicies().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &policiesv1.MutatingAdmissionPolicyBinding{ObjectMeta: made.ObjectMeta,
			Spec: policiesv1.MutatingAdmissionPolicyBindingSpec{
				PolicyName: name, MatchResources: &policiesv1.MatchResources{ObjectSelector: labelled(name)}}}
		if _, err := api.MutatingAdmissionPolicyBindings().Create(t.Context(), binding,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	enforce(t, admin, "roles", policy{name: "more", rules: []policiesv1.Validation{{Expression: "false"}}})
	for name, from := range map[string]string{"more": "configmaps", "less": "secrets"} {
		role := &rbacv1.Role{ObjectMeta: configMapFor(name).ObjectMeta,
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{from}, Verbs: []string{"get"}}}}
		_, err := alice.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{})
		if name == "less" && err != nil ||
			name == "more" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not currently held")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEscalationKnowsWhatIsStored: what a role holds, and what the writer may, counts at once.
func TestEscalationKnowsWhatIsStored(t *testing.T) {
	f := start(t)
	admin, alice := escalating(t, f)
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	for i := range 30 {
		meta := metav1.ObjectMeta{Name: fmt.Sprint("new-", i)}
		rules := []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}
		if _, err := admin.RbacV1().Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := alice.RbacV1().RoleBindings("default").Create(t.Context(),
			&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref("Role", meta.Name)},
			metav1.CreateOptions{}); err != nil {
			t.Errorf("a binding to a new role: %v", err)
		}
		rules[0].Resources[0] = meta.Name
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(),
			&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(),
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref("ClusterRole", meta.Name),
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		meta.Name += "-too"
		if _, err := alice.RbacV1().ClusterRoles().Create(t.Context(),
			&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Errorf("a role with what the writer has just got: %v", err)
		}
	}
}
