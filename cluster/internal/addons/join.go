package addons

import (
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quintet.dev/quintet/internal/join"
)

// ClusterInfoAccess lets clients without credentials read the ConfigMap by which nodes learn the cluster's authority,
// and nothing else, as kubeadm does.
func ClusterInfoAccess() []runtime.Object {
	return namespaced(metav1.NamespacePublic, "kubeadm:bootstrap-signer-clusterinfo",
		rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "system:anonymous"},
		named("", "configmaps", "cluster-info", "get"))
}

// NodeJoining is what tokens by which nodes join may do, by kubeadm's names: request a client certificate, which is
// approved, and renewed by the node itself; see whether a name is taken; read the node's configuration; and get tokens
// for the services of nodes.
func NodeJoining(services []string) []runtime.Object {
	tokens := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: join.NodeGroup}
	nodes := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:nodes"}
	const signing = "system:certificates.k8s.io:certificatesigningrequests:"
	objects := []runtime.Object{
		bound("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", tokens),
		bound("kubeadm:node-autoapprove-bootstrap", signing+"nodeclient", tokens),
		bound("kubeadm:node-autoapprove-certificate-rotation", signing+"selfnodeclient", nodes),
	}
	objects = append(objects, role("kubeadm:get-nodes", tokens, rule("", []string{"nodes"}, "get"))...)
	rules := []rbacv1.PolicyRule{named("", "secrets", join.NodeConfigName, "get")}
	for _, service := range services {
		rules = append(rules, named("", "serviceaccounts/token", service, "create"))
		objects = append(objects, &v1.ServiceAccount{ObjectMeta: meta(service, nil)})
		objects = append(objects, serviceRole(service))
	}
	return append(objects, namespaced(metav1.NamespaceSystem, "quintet:node-config", tokens, rules...)...)
}

// serviceRole binds the role of a service of nodes to its account.
func serviceRole(service string) runtime.Object {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: service, Namespace: metav1.NamespaceSystem}
	switch service {
	case proxyName:
		return bound("kubeadm:node-proxier", "system:node-proxier", account)
	default:
		return bound("quintet:"+service, "system:"+service, account)
	}
}

// RoutesRole is what leads packets to the pods of other nodes may do, with a service account.
func RoutesRole() runtime.Object {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:node-routes"},
		Rules: []rbacv1.PolicyRule{rule("", []string{"nodes"}, "get", "list", "watch")}}
}

// bound binds a cluster role to a subject.
func bound(name, clusterRole string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
	}
}

// namespaced returns a role of a namespace and its binding to subject, both called name.
func namespaced(namespace, name string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) []runtime.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	return []runtime.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: rules},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		},
	}
}

// named permits verbs on one object.
func named(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
	r := rule(group, []string{resource}, verbs...)
	r.ResourceNames = []string{name}
	return r
}
