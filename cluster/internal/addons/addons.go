// Package addons is what runs in a cluster itself, as kubeadm deploys it: cluster DNS, and kube-proxy
// where it is not the node's.
package addons

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// Apply creates the objects that are missing, all at once. Those that exist stay as they are: they are the user's to
// change.
func Apply(ctx context.Context, client kubernetes.Interface, objects []runtime.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, object := range objects {
		group.Go(func() error {
			if err := create(ctx, client, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create %T: %w", object, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func create(ctx context.Context, client kubernetes.Interface, object runtime.Object) error {
	var err error
	options := metav1.CreateOptions{}
	switch o := object.(type) {
	case *v1.ServiceAccount:
		_, err = client.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, options)
	case *v1.ConfigMap:
		_, err = client.CoreV1().ConfigMaps(o.Namespace).Create(ctx, o, options)
	case *v1.Service:
		_, err = client.CoreV1().Services(o.Namespace).Create(ctx, o, options)
		if apierrors.IsInvalid(err) { // the address of one that exists is taken, by itself
			if _, missing := client.CoreV1().Services(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{}); missing == nil {
				err = nil
			}
		}
	case *appsv1.Deployment:
		_, err = client.AppsV1().Deployments(o.Namespace).Create(ctx, o, options)
	case *appsv1.DaemonSet:
		_, err = client.AppsV1().DaemonSets(o.Namespace).Create(ctx, o, options)
	case *storagev1.StorageClass:
		_, err = client.StorageV1().StorageClasses().Create(ctx, o, options)
	case *storagev1.CSIDriver:
		_, err = client.StorageV1().CSIDrivers().Create(ctx, o, options)
	case *resourcev1.DeviceClass:
		_, err = client.ResourceV1().DeviceClasses().Create(ctx, o, options)
	case *discoveryv1.EndpointSlice:
		_, err = client.DiscoveryV1().EndpointSlices(o.Namespace).Create(ctx, o, options)
	case *rbacv1.Role:
		_, err = client.RbacV1().Roles(o.Namespace).Create(ctx, o, options)
	case *rbacv1.RoleBinding:
		_, err = client.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, options)
	case *rbacv1.ClusterRole:
		_, err = client.RbacV1().ClusterRoles().Create(ctx, o, options)
	case *rbacv1.ClusterRoleBinding:
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, o, options)
	default:
		return fmt.Errorf("%T is no object of an add-on", object)
	}
	return err
}

// role returns a cluster role and its binding to subject, both called name.
func role(name string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) []runtime.Object {
	meta := metav1.ObjectMeta{Name: name}
	return []runtime.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		},
	}
}

// rule permits verbs on resources of an API group.
func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}
