package kinds

import (
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/rbac"
)

func roles() *Kind {
	return define(row[*rbacv1.Role]{
		Name: "Role", Resource: "roles",
		Hub: rbacv1.SchemeGroupVersion,
		Former: []Version{
			formerTwin[*rbacv1beta1.Role, *rbacv1.Role](rbacv1beta1.SchemeGroupVersion, nil),
			formerTwin[*rbacv1alpha1.Role, *rbacv1.Role](rbacv1alpha1.SchemeGroupVersion, nil),
		},
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
		Former: []Version{
			formerTwin[*rbacv1beta1.ClusterRole, *rbacv1.ClusterRole](rbacv1beta1.SchemeGroupVersion, nil),
			formerTwin[*rbacv1alpha1.ClusterRole, *rbacv1.ClusterRole](rbacv1alpha1.SchemeGroupVersion, nil),
		},
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
	setDefaults := func(b *rbacv1.RoleBinding) {
		rbac.DefaultRoleRef(&b.RoleRef)
		rbac.DefaultSubjects(b.Subjects)
	}
	return define(row[*rbacv1.RoleBinding]{
		Name: "RoleBinding", Resource: "rolebindings",
		Hub:     rbacv1.SchemeGroupVersion,
		Default: setDefaults,
		Former: []Version{
			formerTwin[*rbacv1beta1.RoleBinding](rbacv1beta1.SchemeGroupVersion, setDefaults),
			former(rbacv1alpha1.SchemeGroupVersion, rbac.RoleBindingFromV1alpha1, setDefaults),
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
	setDefaults := func(b *rbacv1.ClusterRoleBinding) {
		rbac.DefaultRoleRef(&b.RoleRef)
		rbac.DefaultSubjects(b.Subjects)
	}
	return define(row[*rbacv1.ClusterRoleBinding]{
		Name: "ClusterRoleBinding", Resource: "clusterrolebindings", Cluster: true,
		Hub:     rbacv1.SchemeGroupVersion,
		Default: setDefaults,
		Former: []Version{
			formerTwin[*rbacv1beta1.ClusterRoleBinding](rbacv1beta1.SchemeGroupVersion, setDefaults),
			former(rbacv1alpha1.SchemeGroupVersion, rbac.ClusterRoleBindingFromV1alpha1, setDefaults),
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
