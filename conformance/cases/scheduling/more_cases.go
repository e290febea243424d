package scheduling

import "quintet.dev/quintet/conformance/suite"

func ofNodes() []suite.Case {
	return []suite.Case{
		{ID: "scheduling/taint-preferred", Run: taintPreferred, Reference: taints,
			Requirement: "A node with a PreferNoSchedule taint MUST be avoided while another one fits, and taken " +
				"otherwise."},
		{ID: "scheduling/tolerations", Run: tolerations, Reference: taints,
			Requirement: "A toleration MUST match a taint by key, operator, value and effect, and by no less."},
		{ID: "scheduling/node-affinity-operators", Run: nodeAffinityOperators, Reference: assign + "#operators",
			Requirement: "Every operator of node affinity MUST select by its meaning; of terms one suffices, of a " +
				"term's expressions all count."},
		{ID: "scheduling/node-relabeled", Run: relabeled, Reference: assign + "#nodeselector",
			Requirement: "A pod that no node suits MUST be bound once a node gets the labels that it asks for."},
		{ID: "scheduling/other-scheduler", Run: otherScheduler,
			Reference:   "https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/",
			Requirement: "A pod with another schedulerName MUST be left alone."},
		{ID: "scheduling/gates-open", Run: gatesOpen, Reference: readiness + "#mutable-pod-scheduling-directives",
			Requirement: "A pod MUST be bound only when all its gates are gone, by the node selector that it has " +
				"then."},
	}
}

func ofRequests() []suite.Case {
	return []suite.Case{
		{ID: "scheduling/init-requests", Run: initRequests,
			Reference: "https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers",
			Requirement: "A pod's request MUST be the larger of its init containers' and its containers', with " +
				"those of sidecars added."},
		{ID: "scheduling/pod-requests", Run: podRequests,
			Reference:   "https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/",
			Requirement: "A pod's own resource requests MUST count in the place of its containers'."},
		{ID: "scheduling/overhead", Run: overhead,
			Reference:   "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-overhead/",
			Requirement: "The overhead of a pod's runtime class MUST be added to its requests."},
		{ID: "scheduling/extended-resource", Run: extendedResource,
			Reference: "https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/",
			Requirement: "A pod that asks for an extended resource MUST be bound only where as many of it are free, " +
				"and be told what is missing."},
		{ID: "scheduling/pod-count", Run: podCount, Reference: resources,
			Requirement: "A node MUST NOT get more pods than it allows."},
		{ID: "scheduling/host-port-parts", Run: hostPortParts,
			Reference: "https://kubernetes.io/docs/concepts/configuration/overview/",
			Requirement: "Pods that want the same host port at different addresses or protocols MUST fit on one " +
				"node, and one that wants it at all addresses not."},
	}
}

func ofAffinity() []suite.Case {
	const affinity = assign + "#inter-pod-affinity-and-anti-affinity"
	return []suite.Case{
		{ID: "scheduling/pod-affinity", Run: podAffinity, Reference: affinity,
			Requirement: "A pod with required affinity MUST be bound only into a domain that has a pod of the " +
				"wanted kind, as soon as there is one."},
		{ID: "scheduling/pod-affinity-first", Run: podAffinityFirst, Reference: affinity,
			Requirement: "The first pod of a group that wants to be with its own kind MUST be bound, and all others " +
				"beside it."},
		{ID: "scheduling/pod-affinity-namespaces", Run: podAffinityNamespaces, Reference: assign + "#namespace-selector",
			Requirement: "A term of pod affinity MUST mean pods of the pod's own namespace, unless it names or " +
				"selects others."},
		{ID: "scheduling/pod-affinity-preferred", Run: podAffinityPreferred, Reference: affinity,
			Requirement: "Preferred pod affinity and anti-affinity MUST decide among the nodes that fit."},
		{ID: "scheduling/pod-anti-affinity", Run: podAntiAffinity, Reference: affinity,
			Requirement: "A pod with required anti-affinity MUST NOT be bound into a domain that has a pod of that " +
				"kind."},
		{ID: "scheduling/pod-anti-affinity-of-others", Run: podAntiAffinityOfOthers, Reference: affinity,
			Requirement: "A pod MUST NOT be bound into a domain where a pod's anti-affinity forbids it."},
		{ID: "scheduling/pod-anti-affinity-revisions", Run: podAntiAffinityRevisions,
			Reference: assign + "#matchlabelkeys",
			Requirement: "A term with matchLabelKeys MUST count only pods that have the pod's own values of those " +
				"labels."},
	}
}

func ofSpreading() []suite.Case {
	return []suite.Case{
		{ID: "scheduling/topology-spread", Run: topologySpread, Reference: spreading,
			Requirement: "A pod MUST NOT be bound where its domains' counts would differ by more than maxSkew."},
		{ID: "scheduling/topology-spread-anyway", Run: topologySpreadAnyway, Reference: spreading,
			Requirement: "A constraint with ScheduleAnyway MUST prefer the emptier domain and forbid none."},
		{ID: "scheduling/topology-spread-domains", Run: topologySpreadDomains, Reference: spreading,
			Requirement: "With fewer domains than minDomains the least count MUST be taken for zero."},
		{ID: "scheduling/topology-spread-policies", Run: topologySpreadPolicies, Reference: spreading,
			Requirement: "Nodes whose taints a pod does not tolerate MUST count as domains unless nodeTaintsPolicy " +
				"is Honor."},
		{ID: "scheduling/topology-spread-revisions", Run: topologySpreadRevisions, Reference: spreading,
			Requirement: "With matchLabelKeys only pods that have the pod's own values of those labels MUST count."},
	}
}

func ofPreemption() []suite.Case {
	return []suite.Case{
		{ID: "scheduling/preemption", Run: preemption, Reference: preempting + "#preemption",
			Requirement: "A pod of higher priority that fits nowhere MUST have the node nominated where a pod of " +
				"lower priority is deleted for it, which says so, and be bound when that is gone."},
		{ID: "scheduling/preemption-least", Run: preemptionLeast, Reference: preempting + "#preemption",
			Requirement: "Of the nodes where preemption helps, the one MUST be taken whose victims have the lowest " +
				"priority."},
		{ID: "scheduling/preemption-reprieve", Run: preemptionReprieve, Reference: preempting + "#preemption",
			Requirement: "Of a node's pods only as many MUST be preempted as are in the way, those of lowest " +
				"priority."},
		{ID: "scheduling/preemption-budget", Run: preemptionBudget,
			Reference: preempting + "#poddisruptionbudget-is-supported-but-not-guaranteed",
			Requirement: "Preemption MUST prefer victims whose disruption budgets allow it, and take protected ones " +
				"where there are no others."},
		{ID: "scheduling/preemption-never", Run: preemptionNever, Reference: preempting + "#non-preempting-priority-class",
			Requirement: "A pod whose priority class has preemptionPolicy Never MUST wait for capacity."},
		{ID: "scheduling/preemption-useless", Run: preemptionUseless, Reference: preempting + "#preemption",
			Requirement: "No pod MUST be preempted where its absence would not let the pod in."},
	}
}
