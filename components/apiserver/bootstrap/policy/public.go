package policy

import rbacv1 "k8s.io/api/rbac/v1"

// publicRoles are for all users, and for monitoring.
func publicRoles(f Features) []*rbacv1.ClusterRole {
	watched := []string{"/metrics", "/metrics/slis", "/livez", "/readyz", "/healthz", "/livez/*", "/readyz/*",
		"/healthz/*"}
	if !f.NoFlagz {
		watched = append(watched, "/flagz")
	}
	if !f.NoStatusz {
		watched = append(watched, "/statusz")
	}
	return []*rbacv1.ClusterRole{
		clusterRole("cluster-admin", rule("*", "*", "*"), urls("*", "*")),
		clusterRole("system:discovery", urls("get", "/livez", "/readyz", "/healthz", "/version", "/version/",
			"/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*")),
		clusterRole("system:monitoring", urls("get", watched...), rule("get", core, "nodes/metrics")),
		clusterRole("system:basic-user",
			rule("create", authorization, "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
			rule("create", authentication, "selfsubjectreviews")),
		clusterRole("system:public-info-viewer", urls("get", "/livez", "/readyz", "/healthz", "/version", "/version/")),
		clusterRole("system:service-account-issuer-discovery", urls("get",
			"/.well-known/openid-configuration", "/.well-known/openid-configuration/",
			"/openid/v1/jwks", "/openid/v1/jwks/")),
		clusterRole("system:auth-delegator",
			rule("create", authentication, "tokenreviews"),
			rule("create", authorization, "subjectaccessreviews")),
	}
}

// userRoles are for users of namespaces. admin, edit and view are empty here: the controller clusterrole-aggregation
// fills them.
func userRoles() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		aggregated("admin"),
		labeled(aggregated("edit"), "admin"),
		labeled(aggregated("view"), "edit"),
		labeled(clusterRole("system:aggregate-to-admin",
			rule("create", authorization, "localsubjectaccessreviews"),
			rule(readWrite, rbacv1.GroupName, "roles", "rolebindings")), "admin"),
		labeled(clusterRole("system:aggregate-to-edit", editRules()...), "edit"),
		labeled(clusterRole("system:aggregate-to-view", viewRules()...), "view"),
	}
}

func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read, core, "pods/attach", "pods/proxy", "pods/exec", "pods/portforward", "secrets", "services/proxy"),
		rule("impersonate", core, "serviceaccounts"),
		rule(write, core, "pods", "pods/attach", "pods/proxy", "pods/exec", "pods/portforward"),
		rule("create", core, "pods/eviction"),
		rule(write, core, "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services",
			"services/proxy", "persistentvolumeclaims", "configmaps", "secrets"),
		rule("create", core, "serviceaccounts/token"),
		rule(write, "core "+events, "events"),
		rule(write, apps, "statefulsets", "statefulsets/scale", "daemonsets", "deployments", "deployments/scale",
			"deployments/rollback", "replicasets", "replicasets/scale"),
		rule(write, autoscaling, "horizontalpodautoscalers"),
		rule(write, batch, "jobs", "cronjobs"),
		rule(write, extensions, "daemonsets", "deployments", "deployments/scale", "deployments/rollback", "ingresses",
			"replicasets", "replicasets/scale", "replicationcontrollers/scale", "networkpolicies"),
		rule(write, policy, "poddisruptionbudgets"),
		rule(write, networking, "networkpolicies", "ingresses"),
		rule(readWrite, coordination, "leases"),
		rule(write, dynamicDevices, "resourceclaims", "resourceclaimtemplates"),
	}
}

func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read, core, "pods", "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts",
			"services",
			"services/status", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "configmaps"),
		rule(read, core, "limitranges", "resourcequotas", "bindings", "pods/status", "resourcequotas/status",
			"namespaces/status", "replicationcontrollers/status", "pods/log"),
		rule(read, core, "namespaces"),
		rule(read, "core "+events, "events"),
		rule(read, discovery, "endpointslices"),
		rule(read, apps, "controllerrevisions", "statefulsets", "statefulsets/status", "statefulsets/scale",
			"daemonsets", "daemonsets/status", "deployments", "deployments/status", "deployments/scale",
			"replicasets", "replicasets/status", "replicasets/scale"),
		rule(read, autoscaling, "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
		rule(read, batch, "jobs", "cronjobs", "cronjobs/status", "jobs/status"),
		rule(read, extensions, "daemonsets", "daemonsets/status", "deployments", "deployments/scale",
			"deployments/status",
			"ingresses", "ingresses/status", "replicasets", "replicasets/scale", "replicasets/status",
			"replicationcontrollers/scale", "networkpolicies"),
		rule(read, policy, "poddisruptionbudgets", "poddisruptionbudgets/status"),
		rule(read, networking, "networkpolicies", "ingresses", "ingresses/status"),
		rule(read, dynamicDevices, "resourceclaims", "resourceclaims/status", "resourceclaimtemplates"),
	}
}
