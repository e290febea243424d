package rbac

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func roles() *api.Kind {
	return api.Define(api.Row[*rbacv1.Role]{
		Name: "Role", Resource: "roles",
		Hub: rbacv1.SchemeGroupVersion,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*rbacv1beta1.Role, *rbacv1.Role](rbacv1beta1.SchemeGroupVersion, nil),
			api.RemovedTwin[*rbacv1alpha1.Role, *rbacv1.Role](rbacv1alpha1.SchemeGroupVersion, nil),
		},
		Strategy: api.Strategy[*rbacv1.Role]{
			Validate:            api.OfObject(ValidateRole),
			ValidateAmong:       api.WholeFirst(api.IgnoreOld(ValidateRole), api.AnyChange),
			ValidateName:        ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
	})
}

func clusterRoles() *api.Kind {
	return api.Define(api.Row[*rbacv1.ClusterRole]{
		Name: "ClusterRole", Resource: "clusterroles", Cluster: true,
		Hub: rbacv1.SchemeGroupVersion,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*rbacv1beta1.ClusterRole, *rbacv1.ClusterRole](rbacv1beta1.SchemeGroupVersion, nil),
			api.RemovedTwin[*rbacv1alpha1.ClusterRole, *rbacv1.ClusterRole](rbacv1alpha1.SchemeGroupVersion, nil),
		},
		Strategy: api.Strategy[*rbacv1.ClusterRole]{
			Validate: func(_ context.Context, r *rbacv1.ClusterRole) field.ErrorList {
				return ValidateClusterRole(r, nil)
			},
			ValidateAmong:       api.WholeFirst(ValidateClusterRole, api.AnyChange),
			ValidateName:        ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
	})
}

func roleBindings() *api.Kind {
	doc := rbacv1beta1.RoleBinding{}.SwaggerDoc() // upstream's column says what that version said
	validate := func(b *rbacv1.RoleBinding) field.ErrorList { return ValidateBinding(b.RoleRef, b.Subjects, true) }
	setDefaults := func(b *rbacv1.RoleBinding) {
		DefaultRoleRef(&b.RoleRef)
		DefaultSubjects(b.Subjects)
	}
	return api.Define(api.Row[*rbacv1.RoleBinding]{
		Name: "RoleBinding", Resource: "rolebindings",
		Hub:     rbacv1.SchemeGroupVersion,
		Default: setDefaults,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*rbacv1beta1.RoleBinding](rbacv1beta1.SchemeGroupVersion, setDefaults),
			api.RemovedVersion(rbacv1alpha1.SchemeGroupVersion, RoleBindingFromV1alpha1, setDefaults),
		},
		Strategy: api.Strategy[*rbacv1.RoleBinding]{
			Validate: api.OfObject(validate),
			ValidateAmong: api.WholeFirst(api.IgnoreOld(validate), func(new, old *rbacv1.RoleBinding) field.ErrorList {
				return ValidateBindingUpdate(new.RoleRef, old.RoleRef)
			}),
			ValidateName:        ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
		Columns: BindingColumns(doc["roleRef"], "roleBinding"),
		Row:     RoleBindingRow,
	})
}

func clusterRoleBindings() *api.Kind {
	doc := rbacv1beta1.ClusterRoleBinding{}.SwaggerDoc()
	validate := func(b *rbacv1.ClusterRoleBinding) field.ErrorList {
		return ValidateBinding(b.RoleRef, b.Subjects, false)
	}
	setDefaults := func(b *rbacv1.ClusterRoleBinding) {
		DefaultRoleRef(&b.RoleRef)
		DefaultSubjects(b.Subjects)
	}
	return api.Define(api.Row[*rbacv1.ClusterRoleBinding]{
		Name: "ClusterRoleBinding", Resource: "clusterrolebindings", Cluster: true,
		Hub:     rbacv1.SchemeGroupVersion,
		Default: setDefaults,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*rbacv1beta1.ClusterRoleBinding](rbacv1beta1.SchemeGroupVersion, setDefaults),
			api.RemovedVersion(rbacv1alpha1.SchemeGroupVersion, ClusterRoleBindingFromV1alpha1, setDefaults),
		},
		Strategy: api.Strategy[*rbacv1.ClusterRoleBinding]{
			Validate: api.OfObject(validate),
			ValidateAmong: api.WholeFirst(api.IgnoreOld(validate), func(new, old *rbacv1.ClusterRoleBinding) field.ErrorList {
				return ValidateBindingUpdate(new.RoleRef, old.RoleRef)
			}),
			ValidateName:        ValidateName,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
		Columns: BindingColumns(doc["roleRef"], "clusterRoleBinding"),
		Row:     ClusterRoleBindingRow,
	})
}
