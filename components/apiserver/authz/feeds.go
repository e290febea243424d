package authz

import (
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func (c *Chain) feedRBAC() {
	addFeed(c, rbacv1.GroupName, "clusterroles",
		func(old, new *rbacv1.ClusterRole) { c.rbac.ClusterRoleChanged(old, new) })
	addFeed(c, rbacv1.GroupName, "roles", func(old, new *rbacv1.Role) { c.rbac.RoleChanged(old, new) })
	addFeed(c, rbacv1.GroupName, "clusterrolebindings",
		func(old, new *rbacv1.ClusterRoleBinding) { c.rbac.ClusterRoleBindingChanged(old, new) })
	addFeed(c, rbacv1.GroupName, "rolebindings",
		func(old, new *rbacv1.RoleBinding) { c.rbac.RoleBindingChanged(old, new) })
}

func (c *Chain) feedNode() {
	addFeed(c, "", "pods", timed(c, "Pod", c.node.PodChanged))
	addFeed(c, "", "persistentvolumes", timed(c, "PV", c.node.VolumeChanged))
	addFeed(c, storagev1.GroupName, "volumeattachments", timed(c, "VolumeAttachment", c.node.AttachmentChanged))
	addFeed(c, certificatesv1beta1.GroupName, "podcertificaterequests",
		timed(c, "PodCertificateRequest", c.node.PodRequestChanged))
	addFeed(c, resourcev1.GroupName, "resourceslices", timed(c, "ResourceSlice", c.node.SliceChanged))
}

// timed measures changes of what nodes need, by upstream's names for them.
func timed[P comparable](c *Chain, what string, changed func(old, new P) bool) func(old, new P) {
	if c.graph == nil {
		return func(old, new P) { changed(old, new) }
	}
	return func(old, new P) {
		var none P
		operation := "Add"
		if new == none {
			operation = "Delete"
		}
		start := time.Now()
		if changed(old, new) {
			c.graph(operation+what, time.Since(start))
		}
	}
}

// addFeed adds a feed of objects of the Go type T.
func addFeed[T any, P interface {
	*T
	api.Object
}](c *Chain, group, resource string, changed func(old, new P)) {
	c.feeds = append(c.feeds, feed{
		resource: schema.GroupResource{Group: group, Resource: resource},
		changed: func(old, new api.Object) {
			before, _ := old.(P) // nil when there is none
			after, _ := new.(P)
			changed(before, after)
		},
	})
}
