package kinds

import (
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/rbac"
)

func roles() *Kind {
	return define(row[*rbacv1.Role]{
		Name: "Role", Resource: "roles",
		Hub: rbacv1.SchemeGroupVersion,
		Strategy: strategy[*rbacv1.Role]{
			Meta:                MetaAll,
			Validate:            rbac.ValidateRole,
			ValidateUpdate:      func(new, _ *rbacv1.Role) field.ErrorList { return rbac.ValidateRole(new) },
			ValidateName:        rbac.ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
	})
}

func clusterRoles() *Kind {
	return define(row[*rbacv1.ClusterRole]{
		Name: "ClusterRole", Resource: "clusterroles", Cluster: true,
		Hub: rbacv1.SchemeGroupVersion,
		Strategy: strategy[*rbacv1.ClusterRole]{
			Meta:                MetaAll,
			Validate:            func(r *rbacv1.ClusterRole) field.ErrorList { return rbac.ValidateClusterRole(r, nil) },
			ValidateUpdate:      rbac.ValidateClusterRole,
			ValidateName:        rbac.ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
	})
}

func roleBindings() *Kind {
	doc := rbacv1beta1.RoleBinding{}.SwaggerDoc() // upstream's column says what that version said
	return define(row[*rbacv1.RoleBinding]{
		Name: "RoleBinding", Resource: "rolebindings",
		Hub: rbacv1.SchemeGroupVersion,
		Default: func(b *rbacv1.RoleBinding) {
			rbac.DefaultRoleRef(&b.RoleRef)
			rbac.DefaultSubjects(b.Subjects)
		},
		Strategy: strategy[*rbacv1.RoleBinding]{
			Meta:     MetaAll,
			Validate: func(b *rbacv1.RoleBinding) field.ErrorList { return rbac.ValidateBinding(b.RoleRef, b.Subjects, true) },
			ValidateUpdate: func(new, old *rbacv1.RoleBinding) field.ErrorList {
				return append(rbac.ValidateBinding(new.RoleRef, new.Subjects, true), rbac.ValidateBindingUpdate(new.RoleRef, old.RoleRef)...)
			},
			ValidateName:        rbac.ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
		Columns: rbac.BindingColumns(doc["roleRef"], "roleBinding"),
		Row:     rbac.RoleBindingRow,
	})
}

func clusterRoleBindings() *Kind {
	doc := rbacv1beta1.ClusterRoleBinding{}.SwaggerDoc()
	return define(row[*rbacv1.ClusterRoleBinding]{
		Name: "ClusterRoleBinding", Resource: "clusterrolebindings", Cluster: true,
		Hub: rbacv1.SchemeGroupVersion,
		Default: func(b *rbacv1.ClusterRoleBinding) {
			rbac.DefaultRoleRef(&b.RoleRef)
			rbac.DefaultSubjects(b.Subjects)
		},
		Strategy: strategy[*rbacv1.ClusterRoleBinding]{
			Meta: MetaAll,
			Validate: func(b *rbacv1.ClusterRoleBinding) field.ErrorList {
				return rbac.ValidateBinding(b.RoleRef, b.Subjects, false)
			},
			ValidateUpdate: func(new, old *rbacv1.ClusterRoleBinding) field.ErrorList {
				return append(rbac.ValidateBinding(new.RoleRef, new.Subjects, false), rbac.ValidateBindingUpdate(new.RoleRef, old.RoleRef)...)
			},
			ValidateName:        rbac.ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
		Columns: rbac.BindingColumns(doc["roleRef"], "clusterRoleBinding"),
		Row:     rbac.ClusterRoleBindingRow,
	})
}
