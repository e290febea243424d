package policy

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// controller is the role of one controller: "system:controller:<name>", bound to the service account <name>.
type controller struct {
	name  string
	rules []rbacv1.PolicyRule
}

func (c controller) role() *rbacv1.ClusterRole {
	return clusterRole("system:controller:"+c.name, c.rules...)
}

func (c controller) binding() *rbacv1.ClusterRoleBinding {
	return toClusterRole("system:controller:"+c.name, account(c.name))
}

// controllers is the table of what each controller needs.
func controllers(f Features) []controller {
	all := slices.Concat(workloadControllers(), clusterControllers(), storageControllers())
	if f.StorageMigration {
		all = append(all, storageMigrator())
	}
	if f.TrustBundles {
		all = append(all, bundlePublisher())
	}
	if f.PodCertificates {
		all = append(all, podRequestCleaner())
	}
	if f.DeviceTaintRules {
		at := slices.IndexFunc(all, func(c controller) bool { return c.name == "device-taint-eviction-controller" })
		all[at].rules = append(all[at].rules, rule(read, dynamicDevices, "devicetaintrules"),
			rule("update patch", dynamicDevices, "devicetaintrules/status"))
	}
	return all
}

const both = apps + " " + extensions

func workloadControllers() []controller {
	makePods := rule("create delete list patch watch", core, "pods")
	return []controller{
		{"cronjob-controller", []rbacv1.PolicyRule{
			rule(read+" update", batch, "cronjobs"), rule(read+" create update delete patch", batch, "jobs"),
			rule("update", batch, "cronjobs/status"), rule("update", batch, "cronjobs/finalizers"),
			rule("list watch delete", core, "pods"), eventsRule()}},
		{"daemon-set-controller", []rbacv1.PolicyRule{
			rule(read, both, "daemonsets"), rule("update", both, "daemonsets/status"),
			rule("update", both, "daemonsets/finalizers"),
			rule("list watch", core, "nodes"), makePods, rule("create", core, "pods/binding"),
			rule(read+" create delete patch update", apps, "controllerrevisions"), eventsRule()}},
		{"deployment-controller", []rbacv1.PolicyRule{
			rule(read+" update", both, "deployments"), rule("update", both, "deployments/status"),
			rule("update", both, "deployments/finalizers"),
			rule(read+" create update patch delete", both, "replicasets"),
			rule(read+" update", core, "pods"), eventsRule()}},
		{"disruption-controller", []rbacv1.PolicyRule{
			rule(read, both, "deployments"), rule(read, both, "replicasets"),
			rule(read, core, "replicationcontrollers"),
			rule(read, policy, "poddisruptionbudgets"), rule(read, apps, "statefulsets"),
			rule("update", policy, "poddisruptionbudgets/status"), rule("patch update", core, "pods/status"),
			rule("get", "*", "*/scale"), eventsRule()}},
		{"job-controller", []rbacv1.PolicyRule{
			rule(read+" update patch", batch, "jobs"), rule("update", batch, "jobs/status"),
			rule("update", batch, "jobs/finalizers"),
			makePods, eventsRule()}},
		{"replicaset-controller", []rbacv1.PolicyRule{
			rule(read+" update", both, "replicasets"), rule("update", both, "replicasets/status"),
			rule("update", both, "replicasets/finalizers"), makePods, eventsRule()}},
		{"replication-controller", []rbacv1.PolicyRule{
			rule(read+" update", core, "replicationcontrollers"), rule("update", core, "replicationcontrollers/status"),
			rule("update", core, "replicationcontrollers/finalizers"), makePods, eventsRule()}},
		{"statefulset-controller", []rbacv1.PolicyRule{
			rule("list watch", core, "pods"), rule(read, apps, "statefulsets"),
			rule("update", apps, "statefulsets/status"),
			rule("update", apps, "statefulsets/finalizers"), rule("get create delete update patch", core, "pods"),
			rule(read+" create delete update patch", apps, "controllerrevisions"),
			rule(read+" create", core, "persistentvolumeclaims"), rule("update delete", core, "persistentvolumeclaims"),
			rule("update", core, "pods/finalizers"), eventsRule()}},
		{"horizontal-pod-autoscaler", []rbacv1.PolicyRule{
			rule(read, autoscaling, "horizontalpodautoscalers"),
			rule("update", autoscaling, "horizontalpodautoscalers/status"),
			rule("get update", "*", "*/scale"), rule("list watch", core, "pods"),
			rule("list watch", "metrics.k8s.io", "pods"), rule(read, "custom.metrics.k8s.io", "*"),
			rule(read, "external.metrics.k8s.io", "*"), eventsRule()}},
		{"ttl-after-finished-controller", []rbacv1.PolicyRule{rule(read+" delete", batch, "jobs"), eventsRule()}},
		{"pod-garbage-collector", []rbacv1.PolicyRule{
			rule("list watch delete", core, "pods"), rule(read, core, "nodes"), rule("patch", core, "pods/status")}},
		{"resource-claim-controller", []rbacv1.PolicyRule{
			rule(read, core, "pods"), rule("update", core, "pods/finalizers"),
			rule(read+" create delete", dynamicDevices, "resourceclaims"),
			rule("update patch", dynamicDevices, "resourceclaims", "resourceclaims/status"),
			rule("update patch", core, "pods/status"), eventsRule(),
			rule("update patch", dynamicDevices, "resourceclaims/binding")}},
		{"device-taint-eviction-controller", []rbacv1.PolicyRule{
			rule(read+" delete", core, "pods"), rule("update patch", core, "pods/status"),
			rule(read, dynamicDevices, "resourceclaims"), rule(read, dynamicDevices, "resourceslices"),
			rule(read, dynamicDevices, "deviceclasses"), eventsRule()}},
	}
}

func clusterControllers() []controller {
	const csrs = "certificatesigningrequests"
	return []controller{
		{"clusterrole-aggregation-controller", []rbacv1.PolicyRule{
			rule("escalate get list watch update patch", rbacv1.GroupName, "clusterroles")}},
		{"endpoint-controller", []rbacv1.PolicyRule{
			rule(read, core, "services", "pods"), rule(read+" create update delete", core, "endpoints"),
			rule("create", core, "endpoints/restricted"), eventsRule()}},
		{"endpointslice-controller", []rbacv1.PolicyRule{
			rule(read, core, "services", "pods", "nodes"), rule("update", core, "services/finalizers"),
			rule(read+" create update delete", discovery, "endpointslices"), eventsRule()}},
		{"endpointslicemirroring-controller", []rbacv1.PolicyRule{
			rule(read, core, "services", "endpoints"), rule("update", core, "services/finalizers"),
			rule("update", core, "endpoints/finalizers"),
			rule(read+" create update delete", discovery, "endpointslices"),
			eventsRule()}},
		{"generic-garbage-collector", []rbacv1.PolicyRule{rule(read+" patch update delete", "*", "*"), eventsRule()}},
		{"namespace-controller", []rbacv1.PolicyRule{
			rule(read+" delete", core, "namespaces"), rule("update", core, "namespaces/finalize", "namespaces/status"),
			rule(read+" delete deletecollection", "*", "*")}},
		{"node-controller", []rbacv1.PolicyRule{
			rule(read+" update delete patch", core, "nodes"), rule("patch update", core, "nodes/status"),
			rule("patch update", core, "pods/status"), rule(read+" delete", core, "pods"), eventsRule()}},
		{"resourcequota-controller", []rbacv1.PolicyRule{
			rule("list watch", "*", "*"), rule("update", core, "resourcequotas/status"), eventsRule()}},
		{"route-controller", []rbacv1.PolicyRule{
			rule("list watch", core, "nodes"), rule("patch", core, "nodes/status"), eventsRule()}},
		{"service-account-controller", []rbacv1.PolicyRule{rule("create", core, "serviceaccounts"), eventsRule()}},
		{"service-controller", []rbacv1.PolicyRule{
			rule(read, core, "services"), rule("patch update", core, "services/status"),
			rule("list watch", core, "nodes"), eventsRule()}},
		{"service-cidrs-controller", []rbacv1.PolicyRule{
			rule(read+" patch update", networking, "servicecidrs"),
			rule("patch update", networking, "servicecidrs/finalizers"),
			rule("patch update", networking, "servicecidrs/status"), rule(read, networking, "ipaddresses"),
			eventsRule()}},
		{"ttl-controller", []rbacv1.PolicyRule{rule("update patch list watch", core, "nodes"), eventsRule()}},
		{"certificate-controller", []rbacv1.PolicyRule{
			rule(read+" delete", certificates, csrs), rule("update", certificates, csrs+"/status", csrs+"/approval"),
			named(rule("approve", certificates, "signers"), "kubernetes.io/kube-apiserver-client-kubelet"),
			named(rule("sign", certificates, "signers"), "kubernetes.io/legacy-unknown",
				"kubernetes.io/kubelet-serving",
				"kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kube-apiserver-client"),
			rule("create", authorization, "subjectaccessreviews"), eventsRule()}},
		{"root-ca-cert-publisher", []rbacv1.PolicyRule{rule("create update", core, "configmaps"), eventsRule()}},
		{"validatingadmissionpolicy-status-controller", []rbacv1.PolicyRule{
			rule("get list watch", admission, "validatingadmissionpolicies"),
			rule("get patch update", admission, "validatingadmissionpolicies/status"), eventsRule()}},
		{"legacy-service-account-token-cleaner", []rbacv1.PolicyRule{
			named(rule("get", core, "configmaps"), "kube-apiserver-legacy-service-account-token-tracking"),
			rule("delete patch", core, "secrets")}},
	}
}

func storageControllers() []controller {
	const pv, pvc = "persistentvolumes", "persistentvolumeclaims"
	return []controller{
		{"attachdetach-controller", []rbacv1.PolicyRule{
			rule("list watch", core, pv, pvc), rule(read, core, "nodes"), rule("patch update", core, "nodes/status"),
			rule("list watch", core, "pods"), eventsRule(), rule(read+" create delete", storage, "volumeattachments"),
			rule(read, storage, "csidrivers"), rule(read, storage, "csinodes")}},
		{"ephemeral-volume-controller", []rbacv1.PolicyRule{
			rule(read, core, "pods"), rule("update", core, "pods/finalizers"), rule(read+" create", core, pvc),
			eventsRule()}},
		{"expand-controller", []rbacv1.PolicyRule{
			rule(read+" update patch", core, pv), rule("update patch", core, pvc+"/status"), rule(read, core, pvc),
			eventsRule()}},
		{"persistent-volume-binder", []rbacv1.PolicyRule{
			rule(read+" update create delete", core, pv), rule("update", core, pv+"/status"),
			rule(read+" update", core, pvc),
			rule("update", core, pvc+"/status"), rule(read+" create delete", core, "pods"),
			rule(read, storage, "storageclasses"),
			rule("list watch", core, "nodes"), eventsRule(), rule("watch", core, "events")}},
		{"pv-protection-controller", []rbacv1.PolicyRule{rule(read+" update", core, pv), eventsRule()}},
		{"pvc-protection-controller", []rbacv1.PolicyRule{rule(read+" update", core, pvc),
			rule("update", core, pvc+"/status"), rule(read, core, "pods"), eventsRule()}},
		{"selinux-warning-controller", []rbacv1.PolicyRule{
			eventsRule(), rule(read, core, pv), rule(read, core, pvc), rule(read, core, "pods"),
			rule(read, storage, "csidrivers")}},
		{"volumeattributesclass-protection-controller", []rbacv1.PolicyRule{
			rule(read, core, pvc), rule(read, core, pv), rule(read+" update", storage, "volumeattributesclasses"),
			eventsRule()}},
	}
}

// bundlePublisher tells of the authorities that API servers' certificates are of.
func bundlePublisher() controller {
	return controller{"kube-apiserver-serving-clustertrustbundle-publisher", []rbacv1.PolicyRule{
		named(rule("attest", certificates, "signers"), "kubernetes.io/kube-apiserver-serving"),
		rule("create update delete list watch", certificates, "clustertrustbundles"), eventsRule()}}
}

// podRequestCleaner deletes requests for certificates of pods that have had their time.
func podRequestCleaner() controller {
	return controller{"podcertificaterequestcleaner", []rbacv1.PolicyRule{
		rule(read+" delete", certificates, "podcertificaterequests"), eventsRule()}}
}

// storageMigrator applies nothing to each object, which writes it as it is stored today. Creating is what applying to
// an object is that is gone meanwhile; it fails then, as it names the uid.
func storageMigrator() controller {
	const definitions = "apiextensions.k8s.io"
	return controller{"storage-version-migrator-controller", []rbacv1.PolicyRule{
		rule("list create patch", "*", "*"), rule("get", definitions, "customresourcedefinitions"),
		rule("patch", definitions, "customresourcedefinitions/status"),
		rule("update", "storagemigration.k8s.io", "storageversionmigrations/status")}}
}
