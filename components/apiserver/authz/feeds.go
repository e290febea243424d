package authz

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds"
)

func (c *Chain) feedRBAC() {
	addFeed(c, rbacv1.GroupName, "clusterroles", func(old, new *rbacv1.ClusterRole) { c.rbac.ClusterRoleChanged(old, new) })
	addFeed(c, rbacv1.GroupName, "roles", func(old, new *rbacv1.Role) { c.rbac.RoleChanged(old, new) })
	addFeed(c, rbacv1.GroupName, "clusterrolebindings", func(old, new *rbacv1.ClusterRoleBinding) { c.rbac.ClusterRoleBindingChanged(old, new) })
	addFeed(c, rbacv1.GroupName, "rolebindings", func(old, new *rbacv1.RoleBinding) { c.rbac.RoleBindingChanged(old, new) })
}

func (c *Chain) feedNode() {
	addFeed(c, "", "pods", timed(c, "Pod", func(old, new *corev1.Pod) { c.node.PodChanged(old, new) }))
	addFeed(c, "", "persistentvolumes", timed(c, "PV", func(old, new *corev1.PersistentVolume) { c.node.VolumeChanged(old, new) }))
	addFeed(c, storagev1.GroupName, "volumeattachments", timed(c, "VolumeAttachment", func(old, new *storagev1.VolumeAttachment) { c.node.AttachmentChanged(old, new) }))
	addFeed(c, resourcev1.GroupName, "resourceslices", timed(c, "ResourceSlice", func(old, new *resourcev1.ResourceSlice) { c.node.SliceChanged(old, new) }))
}

// timed measures changes of what nodes need, by upstream's names for them.
func timed[P comparable](c *Chain, what string, changed func(old, new P)) func(old, new P) {
	if c.graph == nil {
		return changed
	}
	return func(old, new P) {
		var none P
		operation := "Add"
		if new == none {
			operation = "Delete"
		}
		start := time.Now()
		changed(old, new)
		c.graph(operation+what, time.Since(start))
	}
}

// addFeed adds a feed of objects of the Go type T.
func addFeed[T any, P interface {
	*T
	kinds.Object
}](c *Chain, group, resource string, changed func(old, new P)) {
	c.feeds = append(c.feeds, feed{
		resource: schema.GroupResource{Group: group, Resource: resource},
		changed: func(old, new kinds.Object) {
			before, _ := old.(P) // nil when there is none
			after, _ := new.(P)
			changed(before, after)
		},
	})
}
