package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestWhatAnotherServerWrote counts, though this one has not heard of it yet: roles as they are, and rights of who
// writes.
func TestWhatAnotherServerWrote(t *testing.T) {
	s := storedFixture()
	e, jane := s.escalation(), &user.DefaultInfo{Name: "jane"}
	bind := func(kind, name string) error {
		return e.CheckBinding(t.Context(), jane, "ns", "new",
			rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name})
	}
	scale := rule("update", "*", "*/scale")
	if err := bind("Role", "new"); !apierrors.IsNotFound(err) {
		t.Errorf("before the role is there: %v", err)
	}
	s.Put(rbacv1.Resource("roles"), role("ns", "new", scale))
	if err := bind("Role", "new"); err != nil {
		t.Errorf("to a new role: %v", err)
	}
	s.Put(rbacv1.Resource("clusterroles"), clusterRole("reader", everything...))
	if err := bind("ClusterRole", "reader"); !apierrors.IsForbidden(err) {
		t.Errorf("to a role that has grown: %v", err)
	}

	write := authorizer.AttributesRecord{APIGroup: rbacv1.GroupName, Namespace: "ns", Resource: "roles",
		ResourceRequest: true}
	grant := func() error {
		return e.CheckRole(t.Context(), jane, write, "new", []rbacv1.PolicyRule{rule("create", "", "configmaps")},
			false)
	}
	if err := grant(); !apierrors.IsForbidden(err) {
		t.Errorf("before it is hers: %v", err)
	}
	s.Put(rbacv1.Resource("rolebindings"), roleBinding("ns", "hers", "Role", "local", userSubject("jane")))
	if err := grant(); err != nil {
		t.Errorf("by a new binding in the namespace: %v", err)
	}
	s.Remove(rbacv1.Resource("rolebindings"), "ns", "hers")
	s.Put(rbacv1.Resource("clusterrolebindings"), clusterBinding("hers", "reader", userSubject("jane")))
	if err := grant(); err != nil {
		t.Errorf("by a new binding everywhere: %v", err)
	}
}
