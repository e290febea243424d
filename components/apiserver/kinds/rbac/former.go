package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// RoleBindingFromV1alpha1 converts a role binding.
func RoleBindingFromV1alpha1(b *rbacv1alpha1.RoleBinding) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: b.ObjectMeta, RoleRef: *twin.Of[rbacv1.RoleRef](&b.RoleRef),
		Subjects: subjectsFromV1alpha1(b.Subjects)}
}

// ClusterRoleBindingFromV1alpha1 converts a cluster role binding.
func ClusterRoleBindingFromV1alpha1(b *rbacv1alpha1.ClusterRoleBinding) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: b.ObjectMeta, RoleRef: *twin.Of[rbacv1.RoleRef](&b.RoleRef),
		Subjects: subjectsFromV1alpha1(b.Subjects)}
}

// subjectsFromV1alpha1 converts subjects, which in v1alpha1 have a version instead of a group. The user * means all
// that are known there.
func subjectsFromV1alpha1(list []rbacv1alpha1.Subject) []rbacv1.Subject {
	if list == nil {
		return nil
	}
	out := make([]rbacv1.Subject, len(list))
	for i, s := range list {
		to := &out[i]
		*to = rbacv1.Subject{Kind: s.Kind, Name: s.Name, Namespace: s.Namespace}
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
		case rbacv1.UserKind, rbacv1.GroupKind:
			to.APIGroup = rbacv1.GroupName
		default:
			if gv, err := schema.ParseGroupVersion(s.APIVersion); err == nil {
				to.APIGroup = gv.Group
			}
		}
		if s.Kind == rbacv1.UserKind && s.Name == "*" {
			to.Kind, to.Name = rbacv1.GroupKind, user.AllAuthenticated
		}
	}
	return out
}
