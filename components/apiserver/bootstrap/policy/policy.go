// Package policy lists the roles and bindings that every cluster starts with
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings).
package policy

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Groups of verbs.
const (
	read      = "get list watch"
	write     = "create delete deletecollection patch update"
	readWrite = read + " " + write
)

// API groups.
const (
	core           = ""
	apps           = "apps"
	autoscaling    = "autoscaling"
	batch          = "batch"
	certificates   = "certificates.k8s.io"
	coordination   = "coordination.k8s.io"
	discovery      = "discovery.k8s.io"
	events         = "events.k8s.io"
	extensions     = "extensions"
	networking     = "networking.k8s.io"
	policy         = "policy"
	dynamicDevices = "resource.k8s.io"
	storage        = "storage.k8s.io"
	authentication = "authentication.k8s.io"
	authorization  = "authorization.k8s.io"
	admission      = "admissionregistration.k8s.io"
	node           = "node.k8s.io"
)

const (
	kubeSystem = "kube-system"
	kubePublic = "kube-public"
)

// rule grants verbs on resources of the groups; verbs, groups and resources are lists separated by spaces. The lists of
// a rule are sorted, as they are in every cluster. The core group is written "core" where it stands beside others.
func rule(verbs, groups string, resources ...string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: strings.Fields(verbs), Resources: resources}
	if groups == core {
		r.APIGroups = []string{""}
	} else {
		for _, g := range strings.Fields(groups) {
			r.APIGroups = append(r.APIGroups, strings.TrimPrefix(g, "core"))
		}
	}
	slices.Sort(r.Verbs)
	slices.Sort(r.APIGroups)
	slices.Sort(r.Resources)
	return r
}

func named(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	slices.Sort(names)
	r.ResourceNames = names
	return r
}

func urls(verbs string, paths ...string) rbacv1.PolicyRule {
	slices.Sort(paths)
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: paths}
}

// eventsRule lets a component tell what it does.
func eventsRule() rbacv1.PolicyRule { return rule("create patch update", "core "+events, "events") }

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:   namespace,
		Name:        name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules}
}

// labeled adds the label that makes a role part of an aggregated one.
func labeled(r *rbacv1.ClusterRole, aggregateTo string) *rbacv1.ClusterRole {
	r.Labels["rbac.authorization.k8s.io/aggregate-to-"+aggregateTo] = "true"
	return r
}

// aggregated is filled with the rules of all roles labeled for it.
func aggregated(name string) *rbacv1.ClusterRole {
	r := clusterRole(name)
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + name: "true"}},
	}}
	return r
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: meta(namespace, name), Rules: rules}
}

func toClusterRole(name string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta("", name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   subjects,
	}
}

func toRole(namespace, name, roleName string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta(namespace, name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: roleName},
		Subjects:   subjects,
	}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

func account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: kubeSystem, Name: name}
}

// Features are those that are off by default and bring roles of their own.
type Features struct {
	StorageMigration bool // of stored objects, by a controller
	TrustBundles     bool // of certificates, which all nodes and service accounts may read
	PodCertificates  bool // which kubelets request, and a controller cleans up after
	DeviceTaintRules bool // which the scheduler reads, and a controller evicts by
	// NoFlagz and NoStatusz leave out pages that monitoring may read.
	NoFlagz, NoStatusz bool
}

const bundleDiscovery = "system:cluster-trust-bundle-discovery"

// ClusterRoles lists all default ClusterRoles.
func ClusterRoles(f Features) []*rbacv1.ClusterRole {
	roles := append(publicRoles(f), userRoles()...)
	roles = append(roles, componentRoles(f)...)
	if f.TrustBundles {
		roles = append(roles, clusterRole(bundleDiscovery, rule(read, certificates, "clustertrustbundles")))
	}
	for _, c := range controllers(f) {
		roles = append(roles, c.role())
	}
	return roles
}

// ClusterRoleBindings lists all default ClusterRoleBindings.
func ClusterRoleBindings(f Features) []*rbacv1.ClusterRoleBinding {
	bindings := []*rbacv1.ClusterRoleBinding{
		toClusterRole("cluster-admin", group("system:masters")),
		toClusterRole("system:monitoring", group("system:monitoring")),
		toClusterRole("system:discovery", group("system:authenticated")),
		toClusterRole("system:basic-user", group("system:authenticated")),
		toClusterRole("system:public-info-viewer", group("system:authenticated"), group("system:unauthenticated")),
		toClusterRole("system:node-proxier", user("system:kube-proxy")),
		toClusterRole("system:kube-controller-manager", user("system:kube-controller-manager")),
		toClusterRole("system:kube-dns", account("kube-dns")),
		toClusterRole("system:kube-scheduler", user("system:kube-scheduler")),
		toClusterRole("system:volume-scheduler", user("system:kube-scheduler")),
		toClusterRole("system:service-account-issuer-discovery", group("system:serviceaccounts")),
		// Kubelets are the Node authorizer's; the binding stays so that it can be given subjects where that is off.
		toClusterRole("system:node"),
	}
	if f.TrustBundles {
		bindings = append(bindings, toClusterRole(bundleDiscovery, group("system:serviceaccounts")))
	}
	for _, c := range controllers(f) {
		bindings = append(bindings, c.binding())
	}
	return bindings
}
