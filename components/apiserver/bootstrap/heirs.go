package bootstrap

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

var clusterRoles, clusterRoleBindings = rbacv1.Resource("clusterroles"), rbacv1.Resource("clusterrolebindings")

// splitRoles have their rules in a role of another name since Kubernetes 1.9, and are made of that.
var splitRoles = map[string]string{"admin": "system:aggregate-to-admin", "edit": "system:aggregate-to-edit", "view": "system:aggregate-to-view"}

// The first of these bindings was about what the second is about, too, until Kubernetes 1.14.
const discovery, publicInfo = "system:discovery", "system:public-info-viewer"

// inherit makes roles and bindings out of those that were in their place when a former release wrote to the store, so that what was
// changed there still counts.
func (b *Bootstrap) inherit(ctx context.Context) error {
	for old, name := range splitRoles {
		role, ok, err := heirless[*rbacv1.ClusterRole](ctx, b, clusterRoles, old, name)
		if ok && role.AggregationRule == nil {
			err = b.bequeath(ctx, clusterRoles, &rbacv1.ClusterRole{ObjectMeta: heirMeta(role, name), Rules: role.Rules})
		}
		if err != nil {
			return err
		}
	}
	binding, ok, err := heirless[*rbacv1.ClusterRoleBinding](ctx, b, clusterRoleBindings, discovery, publicInfo)
	if ok {
		err = b.bequeath(ctx, clusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: heirMeta(binding, publicInfo), Subjects: binding.Subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: publicInfo},
		})
	}
	return err
}

// heirless returns what is stored as old, if nothing is as name.
func heirless[P kinds.Object](ctx context.Context, b *Bootstrap, resource schema.GroupResource, old, name string) (was P, ok bool, err error) {
	if _, err := b.cfg.Objects.Get(ctx, resource, "", name); !apierrors.IsNotFound(err) {
		return was, false, err
	}
	was, err = objects.As[P](b.cfg.Objects.Get(ctx, resource, "", old))
	if apierrors.IsNotFound(err) {
		return was, false, nil
	}
	return was, err == nil, err
}

func heirMeta(of metav1.Object, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: of.GetLabels(), Annotations: of.GetAnnotations()}
}

func (b *Bootstrap) bequeath(ctx context.Context, resource schema.GroupResource, heir kinds.Object) error {
	if _, err := b.cfg.Objects.Create(ctx, resource, heir.DeepCopyObject().(kinds.Object)); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
