package policy

import rbacv1 "k8s.io/api/rbac/v1"

// componentRoles are for the parts of the cluster.
func componentRoles(f Features) []*rbacv1.ClusterRole {
	const csrs = "certificatesigningrequests"
	roles := []*rbacv1.ClusterRole{
		clusterRole("system:node", NodeRules(f)...),
		clusterRole("system:node-bootstrapper", rule("create get list watch", certificates, csrs)),
		clusterRole("system:node-problem-detector",
			rule("get", core, "nodes"), rule("patch", core, "nodes/status"), eventsRule()),
		clusterRole("system:node-proxier",
			rule("list watch", core, "services", "endpoints"), rule(read, core, "nodes"), eventsRule(),
			rule("list watch", networking, "servicecidrs"), rule("list watch", discovery, "endpointslices")),
		clusterRole("system:kubelet-api-admin",
			rule(read, core, "nodes"), rule("proxy", core, "nodes"),
			rule("*", core, "nodes/proxy", "nodes/metrics", "nodes/stats", "nodes/log"),
			rule("*", core, "nodes/configz", "nodes/healthz", "nodes/pods")),
		clusterRole("system:kube-controller-manager", controllerManagerRules()...),
		clusterRole("system:kube-scheduler", schedulerRules(f)...),
		clusterRole("system:volume-scheduler",
			rule(read+" patch update", core, "persistentvolumes"), rule(read, storage, "storageclasses"),
			rule(read+" patch update", core, "persistentvolumeclaims")),
		clusterRole("system:persistent-volume-provisioner",
			rule(read+" create delete", core, "persistentvolumes"),
			rule(read+" update", core, "persistentvolumeclaims"),
			rule(read, storage, "storageclasses"), rule("watch", core, "events"), eventsRule()),
		clusterRole("system:kube-aggregator", rule(read, core, "services", "endpoints")),
		clusterRole("system:kube-dns", rule("list watch", core, "endpoints", "services")),
		clusterRole("system:heapster",
			rule(read, core, "events", "pods", "nodes", "namespaces"), rule(read, extensions, "deployments")),
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:nodeclient",
			rule("create", certificates, csrs+"/nodeclient")),
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
			rule("create", certificates, csrs+"/selfnodeclient")),
	}
	for _, signer := range []string{"legacy-unknown", "kubelet-serving", "kube-apiserver-client",
		"kube-apiserver-client-kubelet"} {
		roles = append(roles, clusterRole("system:certificates.k8s.io:"+signer+"-approver",
			named(rule("approve", certificates, "signers"), "kubernetes.io/"+signer)))
	}
	return roles
}

// NodeRules are what a kubelet may do, before the Node authorizer narrows it to its own node.
func NodeRules(f Features) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		rule("create", authentication, "tokenreviews"),
		rule("create", authorization, "subjectaccessreviews", "localsubjectaccessreviews"),
		rule(read, core, "services"),
		rule(read+" create", core, "nodes"),
		rule("update patch", core, "nodes/status"),
		rule("update patch", core, "nodes"),
		eventsRule(),
		rule(read, core, "pods"),
		rule("create delete", core, "pods"),
		rule("update patch", core, "pods/status"),
		rule("create", core, "pods/eviction"),
		rule(read, core, "secrets", "configmaps"),
		rule("get", core, "persistentvolumeclaims", "persistentvolumes"),
		rule("get", core, "endpoints"),
		rule(read+" create", certificates, "certificatesigningrequests"),
		rule("get create update patch delete", coordination, "leases"),
		rule("get", storage, "volumeattachments"),
		rule("create", core, "serviceaccounts/token"),
		rule("get update patch", core, "persistentvolumeclaims/status"),
		rule(read, storage, "csidrivers"),
		rule("get create update patch delete", storage, "csinodes"),
		rule(read, node, "runtimeclasses"),
		rule("get", dynamicDevices, "resourceclaims"),
		rule("deletecollection", dynamicDevices, "resourceslices"),
	}
	if f.TrustBundles {
		rules = append(rules, rule(read, certificates, "clustertrustbundles"))
	}
	if f.PodCertificates {
		rules = append(rules, rule(read+" create", certificates, "podcertificaterequests"))
	}
	return append(rules, rule("get", core, "serviceaccounts"))
}

func controllerManagerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		eventsRule(),
		rule("create", coordination, "leases"),
		named(rule("get update", coordination, "leases"), "kube-controller-manager"),
		rule("create", core, "secrets", "serviceaccounts"),
		rule("delete", core, "secrets"),
		rule("get", core, "namespaces", "secrets", "serviceaccounts", "configmaps"),
		rule("update", core, "secrets", "serviceaccounts"),
		rule("create", authentication, "tokenreviews"),
		rule("create", authorization, "subjectaccessreviews"),
		rule("list watch", "*", "*"),
		rule("create", core, "serviceaccounts/token"),
	}
}

func schedulerRules(f Features) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		eventsRule(),
		rule("create", coordination, "leases"),
		named(rule(read+" update", coordination, "leases"), "kube-scheduler"),
		rule(readWrite, coordination, "leasecandidates"),
		rule(read, core, "nodes"),
		rule(read+" delete", core, "pods"),
		rule("create", core, "pods/binding", "bindings"),
		rule("patch update", core, "pods/status"),
		rule(read, core, "services", "replicationcontrollers"),
		rule(read, apps+" "+extensions, "replicasets"),
		rule(read, apps, "statefulsets"),
		rule(read, policy, "poddisruptionbudgets"),
		rule(read, core, "persistentvolumeclaims", "persistentvolumes"),
		rule("create", authentication, "tokenreviews"),
		rule("create", authorization, "subjectaccessreviews"),
		rule(read, storage, "csinodes"),
		rule(read, storage, "volumeattachments"),
		rule(read, core, "namespaces"),
		rule(read, storage, "csidrivers"),
		rule(read, storage, "csistoragecapacities"),
		rule(read, dynamicDevices, "deviceclasses"),
		rule(read+" patch update", dynamicDevices, "resourceclaims"),
		rule(read+" patch update", dynamicDevices, "resourceclaims/status"),
		rule("update", core, "pods/finalizers"),
		rule(read, dynamicDevices, "resourceslices"),
		rule("create delete", dynamicDevices, "resourceclaims"),
		rule("patch update", dynamicDevices, "resourceclaims/binding"),
	}
	if f.DeviceTaintRules {
		rules = append(rules, rule(read, dynamicDevices, "devicetaintrules"))
	}
	return rules
}

// Roles lists the default Roles of the system namespaces.
func Roles() []*rbacv1.Role {
	const auth = "extension-apiserver-authentication"
	elect := func(resource string) rbacv1.PolicyRule { return rule(read+" create update", coordination, resource) }
	return []*rbacv1.Role{
		role(kubeSystem, auth+"-reader", named(rule(read, core, "configmaps"), auth)),
		role(kubeSystem, "system:controller:bootstrap-signer", rule(read, core, "secrets")),
		role(kubeSystem, "system:controller:cloud-provider", rule(read+" create", core, "configmaps")),
		role(kubeSystem, "system:controller:token-cleaner", rule(read+" delete", core, "secrets"), eventsRule()),
		role(kubeSystem, "system::leader-locking-kube-controller-manager", elect("leases"), elect("leasecandidates")),
		role(kubeSystem, "system::leader-locking-kube-scheduler", elect("leases"), elect("leasecandidates")),
		role(kubePublic, "system:controller:bootstrap-signer",
			rule(read, core, "configmaps"), named(rule("update", core, "configmaps"), "cluster-info"), eventsRule()),
	}
}

// RoleBindings lists the default RoleBindings of the system namespaces.
func RoleBindings() []*rbacv1.RoleBinding {
	const manager, scheduler = "kube-controller-manager", "kube-scheduler"
	return []*rbacv1.RoleBinding{
		toRole(kubeSystem, "system:controller:bootstrap-signer", "system:controller:bootstrap-signer",
			account("bootstrap-signer")),
		toRole(kubeSystem, "system:controller:cloud-provider", "system:controller:cloud-provider",
			account("cloud-provider")),
		toRole(kubeSystem, "system:controller:token-cleaner", "system:controller:token-cleaner",
			account("token-cleaner")),
		toRole(kubeSystem, "system::extension-apiserver-authentication-reader",
			"extension-apiserver-authentication-reader",
			user("system:"+manager), user("system:"+scheduler)),
		toRole(kubeSystem, "system::leader-locking-"+manager, "system::leader-locking-"+manager,
			user("system:"+manager), account(manager), account("leader-election-controller")),
		toRole(kubeSystem, "system::leader-locking-"+scheduler, "system::leader-locking-"+scheduler,
			user("system:"+scheduler), account(scheduler)),
		toRole(kubePublic, "system:controller:bootstrap-signer", "system:controller:bootstrap-signer",
			account("bootstrap-signer")),
	}
}
