package bootstrap

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

var clusterRoles, clusterRoleBindings = rbacv1.Resource("clusterroles"), rbacv1.Resource("clusterrolebindings")

// splitRoles have their rules in a role of another name since Kubernetes 1.9, and are made of that.
var splitRoles = map[string]string{"admin": "system:aggregate-to-admin", "edit": "system:aggregate-to-edit",
	"view": "system:aggregate-to-view"}

// The first of these bindings was about what the second is about, too, until Kubernetes 1.14.
const discovery, publicInfo = "system:discovery", "system:public-info-viewer"

// migrateRoles creates roles and bindings from the ones that former releases had in their place, so that changes made
// to those are kept.
func (b *Bootstrap) migrateRoles(ctx context.Context) error {
	if b.cfg.NoRoles {
		return nil
	}
	for old, name := range splitRoles {
		role, err := stored[*rbacv1.ClusterRole](ctx, b, clusterRoles, old)
		if role != nil && role.AggregationRule == nil {
			migrated := &rbacv1.ClusterRole{ObjectMeta: migratedMeta(role, name), Rules: role.Rules}
			err = b.writer.createMissing(ctx, clusterRoles, migrated.DeepCopy())
		}
		if err != nil {
			return err
		}
	}
	binding, err := stored[*rbacv1.ClusterRoleBinding](ctx, b, clusterRoleBindings, discovery)
	if binding == nil {
		return err
	}
	migrated := &rbacv1.ClusterRoleBinding{
		ObjectMeta: migratedMeta(binding, publicInfo), Subjects: binding.Subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: publicInfo},
	}
	return b.writer.createMissing(ctx, clusterRoleBindings, migrated.DeepCopy())
}

// stored returns an object, which isn't to be changed, or the zero value if there is none.
func stored[P api.Object](ctx context.Context, b *Bootstrap, resource schema.GroupResource, name string) (none P,
	err error) {
	obj, err := objects.As[P](b.writer.objects.Get(ctx, resource, "", name))
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	return obj, err
}

func migratedMeta(of metav1.Object, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: of.GetLabels(), Annotations: of.GetAnnotations()}
}
