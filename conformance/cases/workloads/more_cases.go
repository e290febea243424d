package workloads

import "quintet.dev/quintet/conformance/suite"

// ofMoreJobs are the cases of what Jobs and CronJobs can be told besides how many pods they need.
func ofMoreJobs() []suite.Case {
	return []suite.Case{
		{ID: "workloads/job-indexed", Run: jobIndexed, Reference: jobs + "#completion-mode",
			Requirement: "Each pod of an indexed Job MUST know its index by label, annotation, host name and " +
				"environment, and be tracked by a finalizer."},
		{ID: "workloads/job-elastic", Run: jobElastic, Reference: jobs + "#elastic-indexed-jobs",
			Requirement: "An indexed Job whose completions and parallelism change together MUST keep the pods of " +
				"the lower indexes."},
		{ID: "workloads/job-replacement", Run: jobReplacement, Reference: jobs + "#pod-replacement-policy",
			Requirement: "With the replacement policy Failed a pod MUST be replaced only after its end, and be " +
				"counted as terminating until then."},
		{ID: "workloads/job-deadline", Run: jobDeadline, Reference: jobs + "#job-termination-and-cleanup",
			Requirement: "A Job that is active for longer than its deadline MUST fail and end its pods."},
		{ID: "workloads/job-failure-ignored", Run: jobFailureIgnored, Reference: jobs + "#pod-failure-policy",
			Requirement: "A failure that the policy ignores MUST be made good by another pod and not count."},
		{ID: "workloads/job-fail-index", Run: jobFailIndex, Reference: jobs + "#pod-failure-policy",
			Requirement: "An exit code for which the policy says FailIndex MUST fail the index without another try."},
		{ID: "workloads/job-max-failed-indexes", Run: jobMaxFailedIndexes, Reference: jobs + "#backoff-limit-per-index",
			Requirement: "A Job of which more indexes fail than it allows MUST fail at once and end its other pods."},
		{ID: "workloads/job-pod-deleted", Run: jobPodDeleted, Reference: jobs + "#job-tracking-with-finalizers",
			Requirement: "A pod that is deleted right after its success MUST be counted."},
		{ID: "workloads/job-work-queue", Run: jobWorkQueue, Reference: jobs + "#parallel-jobs",
			Requirement: "A Job without completions MUST start no pod after the first success, and be complete when " +
				"all have ended."},
		{ID: "workloads/cronjob-missed", Run: cronJobMissed, Reference: cronJobs + "#job-creation",
			Requirement: "A CronJob that missed times MUST start one Job, for the latest, and tell which are active."},
		{ID: "workloads/cronjob-allow", Run: cronJobAllow, Reference: cronJobs + "#concurrency-policy",
			Requirement: "With the concurrency policy Allow a Job MUST be started while another runs."},
		{ID: "workloads/cronjob-forbid", Run: cronJobForbid, Reference: cronJobs + "#concurrency-policy",
			Requirement: "With the concurrency policy Forbid no Job MUST be started while another runs."},
		{ID: "workloads/cronjob-replace", Run: cronJobReplace, Reference: cronJobs + "#concurrency-policy",
			Requirement: "With the concurrency policy Replace a new Job MUST take the place of the one that runs."},
		{ID: "workloads/cronjob-deadline", Run: cronJobDeadline, Reference: cronJobs + "#starting-deadline",
			Requirement: "A time that was missed by more than the starting deadline MUST be skipped."},
		{ID: "workloads/cronjob-time-zone", Run: cronJobTimeZone, Reference: cronJobs + "#time-zones",
			Requirement: "A schedule MUST be read in the CronJob's time zone."},
	}
}

func ofTroubles() []suite.Case {
	const taints = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions"
	const quotas = "https://kubernetes.io/docs/concepts/policy/resource-quotas/"
	const ranges = "https://kubernetes.io/docs/concepts/policy/limit-range/"
	return []suite.Case{
		{ID: "workloads/taint-eviction", Run: taintEviction, Reference: taints,
			Requirement: "A NoExecute taint MUST evict the pods that do not tolerate it, and those that tolerate it " +
				"for a time after that."},
		{ID: "workloads/quota-requests", Run: quotaRequests, Reference: quotas,
			Requirement: "A quota of requests MUST refuse pods that say nothing and those that exceed it, and count " +
				"what others ask for."},
		{ID: "workloads/quota-objects", Run: quotaObjects, Reference: quotas + "#quota-on-object-count",
			Requirement: "A quota of a number of objects MUST refuse one more, and allow it when one is gone."},
		{ID: "workloads/limit-range-bounds", Run: limitRangeBounds, Reference: ranges,
			Requirement: "A LimitRange MUST refuse what is below its minimum, whose limit is too many times its " +
				"request, and pods whose sum is above its maximum."},
		{ID: "workloads/disruption-percent", Run: disruptionPercent,
			Reference: "https://kubernetes.io/docs/tasks/run-application/configure-pdb/",
			Requirement: "A budget in percent MUST be of the number that the pods' owner asks for, and each " +
				"eviction MUST use it up by one."},
		{ID: "workloads/slice-conditions", Run: sliceConditions, Reference: sliceDocs + "#conditions",
			Requirement: "An endpoint MUST be ready, serving and terminating as its pod is."},
		{ID: "workloads/slice-unready", Run: sliceUnready, Reference: sliceDocs + "#conditions",
			Requirement: "A Service that publishes pods which are not ready MUST have them as ready endpoints."},
		{ID: "workloads/slice-mirror", Run: sliceMirror, Reference: sliceDocs + "#endpointslice-mirroring",
			Requirement: "Endpoints of a Service without a selector MUST be mirrored into an EndpointSlice, and " +
				"removed with it."},
		{ID: "workloads/account-secret", Run: accountSecret, Reference: accounts,
			Requirement: "A Secret of a service account's token MUST be filled, and deleted with the account."},
		{ID: "workloads/role-aggregation", Run: roleAggregation,
			Reference: "https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles",
			Requirement: "An aggregated ClusterRole MUST have the rules of the roles that it selects, as they come " +
				"and go."},
	}
}

func ofReplicas() []suite.Case {
	return []suite.Case{
		{ID: "workloads/replicaset-deletion-cost", Run: replicaSetDeletionCost,
			Reference: replicaSets + "#pod-deletion-cost",
			Requirement: "Of equal pods, those of the lowest deletion cost MUST go first when a ReplicaSet is " +
				"scaled down."},
		{ID: "workloads/replicaset-unready-first", Run: replicaSetUnreadyFirst,
			Reference:   replicaSets + "#scaling-a-replicaset",
			Requirement: "Pods that are not ready MUST go before ready ones when a ReplicaSet is scaled down."},
		{ID: "workloads/replicaset-min-ready", Run: replicaSetMinReady, Reference: deployments + "#min-ready-seconds",
			Requirement: "A pod MUST count as available only when it has been ready for minReadySeconds."},
		{ID: "workloads/replicaset-failed-pod", Run: replicaSetFailedPod, Reference: replicaSets,
			Requirement: "A pod that failed MUST be replaced once."},
		{ID: "workloads/deployment-surge", Run: deploymentSurge, Reference: deployments + "#max-surge",
			Requirement: "A rollout MUST go on by as many pods as maxSurge and maxUnavailable allow, and no further " +
				"until they are ready."},
		{ID: "workloads/deployment-proportional", Run: deploymentProportional,
			Reference: deployments + "#proportional-scaling",
			Requirement: "A Deployment that is scaled during a rollout MUST share the change among its ReplicaSets " +
				"in proportion."},
		{ID: "workloads/deployment-history", Run: deploymentHistory, Reference: deployments + "#clean-up-policy",
			Requirement: "A Deployment MUST keep no more old ReplicaSets than its revisionHistoryLimit."},
		{ID: "workloads/deployment-available", Run: deploymentAvailable, Reference: deployments + "#deployment-status",
			Requirement: "A Deployment MUST be Available as long as no more pods are missing than it allows, and " +
				"say so otherwise."},
	}
}

func ofSets() []suite.Case {
	const daemonSets = "https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/"
	const daemonUpdates = "https://kubernetes.io/docs/tasks/manage-daemon/update-daemon-set/"
	return []suite.Case{
		{ID: "workloads/statefulset-heals", Run: statefulSetHeals, Reference: statefulSets + "#stable-network-id",
			Requirement: "A pod of a StatefulSet that is deleted MUST come back under its name."},
		{ID: "workloads/statefulset-on-delete", Run: statefulSetOnDelete, Reference: statefulSets + "#update-strategies",
			Requirement: "With the update strategy OnDelete a pod MUST get the new template when it is deleted, and " +
				"not before."},
		{ID: "workloads/statefulset-rolls", Run: statefulSetRolls, Reference: statefulSets + "#rolling-updates",
			Requirement: "An update MUST replace the pods from the highest ordinal down, each when the one before " +
				"is ready."},
		{ID: "workloads/statefulset-scales-down", Run: statefulSetScalesDown,
			Reference: statefulSets + "#deployment-and-scaling-guarantees",
			Requirement: "A StatefulSet that is scaled down MUST end its pods from the highest ordinal down, one " +
				"after the other."},
		{ID: "workloads/statefulset-foreign-pod", Run: statefulSetForeignPod, Reference: statefulSets,
			Requirement: "A pod that is not a StatefulSet's own MUST be left alone though it has the name of one, " +
				"which MUST be created when the name is free."},
		{ID: "workloads/statefulset-deleted-claims", Run: statefulSetDeletedClaims,
			Reference:   statefulSets + "#persistentvolumeclaim-retention",
			Requirement: "With whenDeleted Delete the claims of a StatefulSet MUST be deleted with it."},
		{ID: "workloads/daemonset-nodes", Run: daemonSetNodes, Reference: daemonSets,
			Requirement: "A DaemonSet MUST follow its nodes as they come and go, with pods that tolerate a node's " +
				"troubles."},
		{ID: "workloads/daemonset-taints", Run: daemonSetTaints, Reference: daemonSets + "#taints-and-tolerations",
			Requirement: "A DaemonSet MUST have no pod for a node with a taint that its pods do not tolerate."},
		{ID: "workloads/daemonset-rolls", Run: daemonSetRolls, Reference: daemonUpdates,
			Requirement: "An update of a DaemonSet MUST replace no more pods at once than maxUnavailable allows."},
		{ID: "workloads/daemonset-surge", Run: daemonSetSurge, Reference: daemonUpdates,
			Requirement: "With maxSurge a DaemonSet's new pod MUST be ready before the old one of its node is " +
				"deleted."},
		{ID: "workloads/daemonset-on-delete", Run: daemonSetOnDelete, Reference: daemonUpdates,
			Requirement: "With the update strategy OnDelete a DaemonSet's pod MUST get the new template when it is " +
				"deleted."},
		{ID: "workloads/daemonset-failed-pod", Run: daemonSetFailedPod, Reference: daemonSets,
			Requirement: "A DaemonSet's pod that failed MUST be deleted and replaced."},
	}
}
