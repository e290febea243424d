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
			Validate:            rbac.ValidateRole,
			ValidateAmong:       wholeFirst(whatever(rbac.ValidateRole), unchecked),
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
			Validate:            func(r *rbacv1.ClusterRole) field.ErrorList { return rbac.ValidateClusterRole(r, nil) },
			ValidateAmong:       wholeFirst(rbac.ValidateClusterRole, unchecked),
			ValidateName:        rbac.ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
	})
}

func roleBindings() *Kind {
	doc := rbacv1beta1.RoleBinding{}.SwaggerDoc() // upstream's column says what that version said
	validate := func(b *rbacv1.RoleBinding) field.ErrorList { return rbac.ValidateBinding(b.RoleRef, b.Subjects, true) }
	return define(row[*rbacv1.RoleBinding]{
		Name: "RoleBinding", Resource: "rolebindings",
		Hub: rbacv1.SchemeGroupVersion,
		Default: func(b *rbacv1.RoleBinding) {
			rbac.DefaultRoleRef(&b.RoleRef)
			rbac.DefaultSubjects(b.Subjects)
		},
		Strategy: strategy[*rbacv1.RoleBinding]{
			Validate: validate,
			ValidateAmong: wholeFirst(whatever(validate), func(new, old *rbacv1.RoleBinding) field.ErrorList {
				return rbac.ValidateBindingUpdate(new.RoleRef, old.RoleRef)
			}),
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
	validate := func(b *rbacv1.ClusterRoleBinding) field.ErrorList {
		return rbac.ValidateBinding(b.RoleRef, b.Subjects, false)
	}
	return define(row[*rbacv1.ClusterRoleBinding]{
		Name: "ClusterRoleBinding", Resource: "clusterrolebindings", Cluster: true,
		Hub: rbacv1.SchemeGroupVersion,
		Default: func(b *rbacv1.ClusterRoleBinding) {
			rbac.DefaultRoleRef(&b.RoleRef)
			rbac.DefaultSubjects(b.Subjects)
		},
		Strategy: strategy[*rbacv1.ClusterRoleBinding]{
			Validate: validate,
			ValidateAmong: wholeFirst(whatever(validate), func(new, old *rbacv1.ClusterRoleBinding) field.ErrorList {
				return rbac.ValidateBindingUpdate(new.RoleRef, old.RoleRef)
			}),
			ValidateName:        rbac.ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
		Columns: rbac.BindingColumns(doc["roleRef"], "clusterRoleBinding"),
		Row:     rbac.ClusterRoleBindingRow,
	})
}
