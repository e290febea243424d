// Package workloads holds the cases that test the controllers: that what is wanted comes to be, and what is no longer
// wanted goes.
package workloads

import (
	"slices"

	"quintet.dev/quintet/conformance/suite"
)

const (
	replicaSets  = "https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/"
	deployments  = "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/"
	collection   = "https://kubernetes.io/docs/concepts/architecture/garbage-collection/"
	namespaces   = "https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/"
	accounts     = "https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/"
	sliceDocs    = "https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/"
	jobs         = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
	cronJobs     = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
	statefulSets = "https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/"
	signing      = "https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/"
)

// Cases returns the cases of the controllers. Those that need pods to run say so.
func Cases() []suite.Case {
	pods := []suite.Feature{suite.HasScheduler, suite.RunsPods}
	all := []suite.Case{
		{ID: "workloads/replicaset-creates", Run: replicaSetCreates, Reference: replicaSets,
			Requirement: "A ReplicaSet MUST have exactly as many pods as it asks for, and own them."},
		{ID: "workloads/replicaset-heals", Run: replicaSetHeals, Reference: replicaSets,
			Requirement: "A ReplicaSet MUST replace a pod that is deleted, and remove the surplus when scaled down."},
		{ID: "workloads/replicaset-adopts", Run: replicaSetAdopts, Reference: replicaSets + "#non-template-pod-acquisitions",
			Requirement: "A ReplicaSet MUST adopt matching pods without an owner, and release pods that cease to match."},
		{ID: "workloads/deployment-rolls", Run: deploymentRolls, Reference: deployments + "#rolling-update-deployment",
			Needs: pods,
			Requirement: "A changed Deployment MUST replace its pods without ever going below its available or above its " +
				"surged number."},
		{ID: "workloads/deployment-rolls-back", Run: deploymentRollsBack,
			Reference: deployments + "#rolling-back-a-deployment", Needs: pods,
			Requirement: "A Deployment whose earlier template is restored MUST go back to the ReplicaSet of that template " +
				"under a new revision."},
		{ID: "workloads/deployment-stuck", Run: deploymentStuck, Reference: deployments + "#failed-deployment", Needs: pods,
			Requirement: "A rollout that makes no progress MUST report Progressing=False with ProgressDeadlineExceeded and " +
				"keep the old pods."},
		{ID: "workloads/deployment-recreate", Run: deploymentRecreate, Reference: deployments + "#recreate-deployment",
			Needs:       pods,
			Requirement: "A Deployment of type Recreate MUST NOT start new pods before all old ones are gone."},
		{ID: "workloads/deployment-paused", Run: deploymentPaused,
			Reference:   deployments + "#pausing-and-resuming-a-deployment",
			Requirement: "A paused Deployment MUST NOT roll out a new template until it is resumed."},
		{ID: "workloads/gc-background", Run: gcBackground, Reference: collection + "#background-deletion",
			Requirement: "Deleting an owner in the background MUST remove it at once and its dependents soon after."},
		{ID: "workloads/gc-foreground", Run: gcForeground, Reference: collection + "#foreground-deletion",
			Requirement: "Deleting an owner in the foreground MUST remove it only after its dependents."},
		{ID: "workloads/gc-orphan", Run: gcOrphan, Reference: collection + "#orphaned-dependents",
			Requirement: "Deleting an owner with the policy Orphan MUST keep its dependents and drop their owner reference."},
		{ID: "workloads/gc-absent-owner", Run: gcAbsentOwner, Reference: collection,
			Requirement: "An object whose only owner does not exist MUST be collected."},
		{ID: "workloads/namespace-deletion", Run: namespaceDeletion, Reference: namespaces,
			Requirement: "A deleted namespace MUST take all its objects with it, refuse new ones meanwhile, and be gone in " +
				"the end."},
		{ID: "workloads/service-account", Run: serviceAccount, Reference: accounts,
			Requirement: "Every namespace MUST have a default service account and the cluster's root certificate, restored " +
				"when deleted."},
		{ID: "workloads/endpoint-slices", Run: endpointSlices, Reference: sliceDocs, Needs: pods,
			Requirement: "The EndpointSlices of a Service MUST name its ready pods, and cease to name those that are gone."},
		{ID: "workloads/kubelet-certificate", Run: kubeletCertificate, Reference: signing,
			Requirement: "A kubelet's request for a client certificate MUST be approved and signed, and one for another " +
				"node's name not."},
	}
	all = append(all, slices.Concat(ofJobs(), ofMoreJobs(), ofReplicas(), ofStatefulSets(), ofSets(), ofLimits(),
		ofTroubles())...)
	for i := range all {
		all[i].Component, all[i].Since = suite.Controllers, "0.1"
		all[i].Needs = append(all[i].Needs, suite.HasControllers)
	}
	return all
}

func ofJobs() []suite.Case {
	return []suite.Case{
		{ID: "workloads/job-completes", Run: jobCompletes, Reference: jobs + "#parallel-jobs",
			Requirement: "A Job MUST run as many pods at once as it allows, and be complete with as many successes as it " +
				"asks for."},
		{ID: "workloads/job-success-policy", Run: jobSuccessPolicy, Reference: jobs + "#success-policy",
			Requirement: "An indexed Job MUST succeed, and end its other pods, once its success policy is met."},
		{ID: "workloads/job-failure-policy", Run: jobFailurePolicy, Reference: jobs + "#pod-failure-policy",
			Requirement: "A Job MUST fail without another try when a pod ends with an exit code that its policy names."},
		{ID: "workloads/job-backoff-per-index", Run: jobBackoffPerIndex, Reference: jobs + "#backoff-limit-per-index",
			Requirement: "An index that fails too often MUST NOT keep others from their end, and MUST fail the Job then."},
		{ID: "workloads/job-backoff-limit", Run: jobBackoffLimit, Reference: jobs + "#pod-backoff-failure-policy",
			Requirement: "A Job whose pods fail more often than its limit MUST fail and start no more."},
		{ID: "workloads/job-suspend", Run: jobSuspend, Reference: jobs + "#suspending-a-job",
			Requirement: "A suspended Job MUST have no pods, and start over when it is resumed."},
		{ID: "workloads/job-managed-by", Run: jobManagedBy,
			Reference: jobs +
				"#delegation-of-managing-a-job-object-to-external-controller",
			Requirement: "A Job that another controller manages MUST be left alone."},
		{ID: "workloads/job-ttl", Run: jobTTL, Reference: jobs + "#ttl-mechanism-for-finished-jobs",
			Requirement: "A finished Job MUST be deleted with its pods once its time to live is over."},
		{ID: "workloads/cronjob-history", Run: cronJobHistory, Reference: cronJobs + "#jobs-history-limits",
			Requirement: "A CronJob MUST keep no more of its finished Jobs than its limit, the latest ones."},
	}
}

func ofStatefulSets() []suite.Case {
	return []suite.Case{
		{ID: "workloads/statefulset-ordered", Run: statefulSetOrdered,
			Reference:   statefulSets + "#orderedready-pod-management",
			Requirement: "A StatefulSet MUST NOT start a pod before the one of the lower ordinal is ready."},
		{ID: "workloads/statefulset-parallel", Run: statefulSetParallel, Reference: statefulSets + "#start-ordinal",
			Requirement: "A StatefulSet with parallel pod management MUST start all pods at once, from its first ordinal on."},
		{ID: "workloads/statefulset-partition", Run: statefulSetPartition, Reference: statefulSets + "#partitions",
			Requirement: "An update of a StatefulSet MUST leave the pods below its partition as they are."},
		{ID: "workloads/statefulset-claims", Run: statefulSetClaims,
			Reference:   statefulSets + "#persistentvolumeclaim-retention",
			Requirement: "The claims of a StatefulSet's pods MUST be deleted or kept as its retention policy says."},
		{ID: "workloads/replicationcontroller", Run: replicationController,
			Reference:   "https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller/",
			Requirement: "A ReplicationController MUST have exactly as many pods as it asks for, and own them."},
		{ID: "workloads/daemonset-selector", Run: daemonSetSelector, Needs: []suite.Feature{suite.RunsPods},
			Reference:   "https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#running-pods-on-select-nodes",
			Requirement: "A DaemonSet MUST have a pod for each node that it selects, and for no other."},
	}
}

func ofLimits() []suite.Case {
	return []suite.Case{
		{ID: "workloads/disruption-budget", Run: disruptionBudget,
			Reference: "https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy",
			Requirement: "A budget MUST refuse the eviction of a healthy pod that it needs, and allow that of an unhealthy " +
				"one if it says so."},
		{ID: "workloads/quota-scopes", Run: quotaScopes,
			Reference: "https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes",
			Requirement: "A quota with a scope MUST count the pods of that scope only, and count them no more when they are " +
				"gone."},
		{ID: "workloads/limit-range", Run: limitRange, Reference: "https://kubernetes.io/docs/concepts/policy/limit-range/",
			Requirement: "A LimitRange MUST give pods their defaults and refuse those above its maximum."},
		{ID: "workloads/namespace-finalizers", Run: namespaceFinalizers, Reference: namespaces,
			Requirement: "A namespace MUST stay, and tell what remains, until the last finalizer of its objects is gone."},
	}
}
