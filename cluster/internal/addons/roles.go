package addons

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NetworkPolicyRole is what the enforcement of NetworkPolicies on nodes may do.
func NetworkPolicyRole(user string) []runtime.Object {
	return role("system:network-policy", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user},
		rule("", []string{"pods", "namespaces", "nodes"}, "get", "list", "watch"),
		rule("networking.k8s.io", []string{"networkpolicies"}, "get", "list", "watch"))
}

// VolumeProvisionerRole is what the makers of local volumes may do.
func VolumeProvisionerRole(user string) []runtime.Object {
	return role("system:volume-provisioner",
		rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user},
		rule("", []string{"persistentvolumes"}, "get", "list", "watch", "create", "update", "delete"),
		rule("", []string{"persistentvolumeclaims"}, "get", "list", "watch", "update"),
		rule("", []string{"nodes"}, "get"),
		rule("storage.k8s.io", []string{"storageclasses"}, "get", "list", "watch"),
		rule("", []string{"events"}, "create", "patch", "update"))
}

// CloudProviderRole is what the cloud provider may do.
func CloudProviderRole(user string) []runtime.Object {
	return role("system:cloud-provider", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user},
		rule("", []string{"services", "nodes"}, "get", "list", "watch"),
		rule("", []string{"services/status"}, "patch"),
		rule("certificates.k8s.io", []string{"certificatesigningrequests"}, "get", "list", "watch"),
		rule("certificates.k8s.io", []string{"certificatesigningrequests/approval"}, "update"),
		named("certificates.k8s.io", "signers", "kubernetes.io/kubelet-serving", "approve"),
		rule("", []string{"events"}, "create", "patch", "update"))
}

// KubeletClientBinding lets the API server's client for kubelets do what it needs to at nodes, and nothing else: logs,
// exec, attach, port-forward, metrics and proxy.
func KubeletClientBinding(user string) []runtime.Object {
	return []runtime.Object{&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin",
		},
	}}
}
