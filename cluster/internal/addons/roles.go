package addons

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NetworkPolicyRole is what the enforcement of NetworkPolicies on nodes may do.
func NetworkPolicyRole(user string) []runtime.Object {
	return role("system:network-policy", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user},
		rule("", []string{"pods", "namespaces", "nodes"}, "get", "list", "watch"),
		rule("networking.k8s.io", []string{"networkpolicies"}, "get", "list", "watch"))
}

// CloudProviderRole is what the cloud provider may do.
func CloudProviderRole(user string) []runtime.Object {
	return role("system:cloud-provider", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user},
		rule("", []string{"services", "nodes"}, "get", "list", "watch"),
		rule("", []string{"services/status"}, "patch"),
		rule("", []string{"events"}, "create", "patch", "update"))
}
