package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// DefaultRoleRef sets the defaults of a reference to a role.
func DefaultRoleRef(r *rbacv1.RoleRef) {
	if r.APIGroup == "" {
		r.APIGroup = rbacv1.GroupName
	}
}

// DefaultSubjects sets the API groups that the kinds of subjects imply.
func DefaultSubjects(list []rbacv1.Subject) {
	for i := range list {
		s := &list[i]
		if s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

// BindingColumns are the columns of role bindings of both scopes.
func BindingColumns(roleRef, subjects string) show.Columns {
	return show.Name().
		String("Role", roleRef).
		Age().
		Wide("Users", "Users in the "+subjects).
		Wide("Groups", "Groups in the "+subjects).
		Wide("ServiceAccounts", "ServiceAccounts in the "+subjects)
}

// RoleBindingRow are the cells of a role binding.
func RoleBindingRow(b *rbacv1.RoleBinding) []any {
	return append([]any{b.Name, b.RoleRef.Kind + "/" + b.RoleRef.Name, show.Age(b.CreationTimestamp)},
		subjects(b.Subjects)...)
}

// ClusterRoleBindingRow are the cells of a cluster role binding.
func ClusterRoleBindingRow(b *rbacv1.ClusterRoleBinding) []any {
	return append([]any{b.Name, b.RoleRef.Kind + "/" + b.RoleRef.Name, show.Age(b.CreationTimestamp)},
		subjects(b.Subjects)...)
}

func subjects(list []rbacv1.Subject) []any {
	var users, groups, accounts []string
	for _, s := range list {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		}
	}
	return []any{strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", ")}
}
