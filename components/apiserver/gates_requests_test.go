package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	policiesv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// TestGateMutatingAdmissionPolicy: policies can be written without it, and change nothing.
func TestGateMutatingAdmissionPolicy(t *testing.T) {
	for on, want := range map[bool]string{true: "there", false: ""} {
		c := start(t, gated(map[string]bool{"MutatingAdmissionPolicy": on})).client(t)
		made := &policiesv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: policiesv1.MutatingAdmissionPolicySpec{
				MatchConstraints: matching("configmaps"), ReinvocationPolicy: policiesv1.NeverReinvocationPolicy,
				Mutations: []policiesv1.Mutation{
					{PatchType: policiesv1.PatchTypeJSONPatch, JSONPatch: &policiesv1.JSONPatch{
						Expression: `[JSONPatch{op: "add", path: "/data/policy", value: "there"}]`}}},
			}}
		if _, err := c.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(t.Context(), made,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &policiesv1.MutatingAdmissionPolicyBinding{ObjectMeta: made.ObjectMeta,
			Spec: policiesv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}}
		if _, err := c.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(t.Context(), binding,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		m, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), configMapFor("m"), metav1.CreateOptions{})
		if err != nil || m.Data["policy"] != want {
			t.Errorf("%v: data %v, %v", on, m.Data, err)
		}
	}
}

// TestGateConstrainedImpersonation: without it only the verb impersonate lets users act as others.
func TestGateConstrainedImpersonation(t *testing.T) {
	for _, on := range []bool{true, false} {
		f := start(t, gated(map[string]bool{"ConstrainedImpersonation": on}))
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "acting"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"bob"},
				Verbs: []string{"impersonate"}},
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users"},
				ResourceNames: []string{"carol"}, Verbs: []string{"impersonate:user-info"}},
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"},
				Verbs: []string{"impersonate-on:user-info:create"}},
		}}
		rbac := f.client(t).RbacV1()
		if _, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}}}
		if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		as := func(ctx context.Context, name string) error {
			config := f.as("alice")
			config.Impersonate.UserName = name
			_, err := f.clientOf(t, config).AuthenticationV1().SelfSubjectReviews().Create(ctx,
				&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			return err
		}
		// authorization follows what is stored
		knows := func(ctx context.Context) (bool, error) { return as(ctx, "bob") == nil, nil }
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, knows); err != nil {
			t.Fatal(err)
		}
		if err := as(t.Context(), "carol"); (err == nil) != on {
			t.Errorf("%v: for one request: %v", on, err)
		}
		name := map[bool]string{true: "constrainedimpersonation", false: "impersonation"}[on]
		if text := f.text(t, "/metrics"); !strings.Contains(text,
			fmt.Sprintf("apiserver_request_filter_duration_seconds_count{filter=%q}", name)) {
			t.Errorf("%v: no filter %s", on, name)
		}
	}
}
