package apiserver_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// TestImpersonation: which users may impersonate which others, and their permissions then.
func TestImpersonation(t *testing.T) {
	f := start(t)
	admin := f.client(t)
	ctx := context.Background()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "acting"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"bob"},
			Verbs: []string{"impersonate"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"uids", "userextras/scopes"},
			Verbs: []string{"impersonate"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users"}, ResourceNames: []string{"carol"},
			Verbs: []string{"impersonate:user-info"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"},
			Verbs: []string{"impersonate-on:user-info:create"}},
	}}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	knows := func(ctx context.Context) (bool, error) { // authorization follows what is stored
		bob := f.as("alice")
		bob.Impersonate.UserName = "bob"
		_, err := f.clientOf(t, bob).AuthenticationV1().SelfSubjectReviews().Create(ctx,
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err == nil, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, knows); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		from   string
		as     rest.ImpersonationConfig
		groups []string
		fails  string
	}{
		"user": {"admin", rest.ImpersonationConfig{UserName: "bob"}, []string{"system:authenticated"}, ""},
		"groups": {"admin", rest.ImpersonationConfig{UserName: "bob", Groups: []string{"a", "b"}},
			[]string{"a", "b", "system:authenticated"}, ""},
		"account": {"admin", rest.ImpersonationConfig{UserName: "system:serviceaccount:x:y"},
			[]string{"system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"}, ""},
		"no user": {"admin", rest.ImpersonationConfig{Groups: []string{"a"}}, nil,
			"without impersonating a user name"},
		"allowed user": {"alice",
			rest.ImpersonationConfig{UserName: "bob", UID: "7", Extra: map[string][]string{"scopes": {"v"}}},
			[]string{"system:authenticated"}, ""},
		"other user": {"alice", rest.ImpersonationConfig{UserName: "dave"}, nil, `resource "users"`},
		"other extra": {"alice",
			rest.ImpersonationConfig{UserName: "bob", Extra: map[string][]string{"other": {"v"}}}, nil,
			`cannot impersonate resource "userextras/other"`},
		"for one request": {"alice", rest.ImpersonationConfig{UserName: "carol"}, []string{"system:authenticated"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := f.as(tt.from)
			config.Impersonate = tt.as
			me, err := f.clientOf(t, config).AuthenticationV1().SelfSubjectReviews().Create(ctx,
				&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("got %v, want %q in it", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := me.Status.UserInfo
			if got.Username != tt.as.UserName || got.UID != tt.as.UID || !slices.Equal(got.Groups, tt.groups) ||
				len(got.Extra) != len(tt.as.Extra) {
				t.Errorf("acts as %+v", got)
			}
		})
	}
	config := f.as("alice")
	config.Impersonate.UserName = "carol"
	if _, err := f.clientOf(t, config).CoreV1().Pods("").List(ctx, metav1.ListOptions{}); err == nil ||
		!strings.Contains(err.Error(), "impersonate") {
		t.Errorf("carol may be acted as for reviews only, but: %v", err)
	}
}
