// Package networkpolicy holds the cases that test how NetworkPolicies are enforced, by the network plug-in or by
// another component.
package networkpolicy

import (
	"slices"
	"time"

	"quintet.dev/quintet/conformance/suite"
)

const (
	policyDocs = "https://kubernetes.io/docs/concepts/services-networking/network-policies/"
	isolation  = policyDocs + "#the-two-sorts-of-pod-isolation"
	selectors  = policyDocs + "#behavior-of-to-and-from-selectors"
	resource   = policyDocs + "#networkpolicy-resource"
	filtering  = policyDocs + "#network-traffic-filtering"
)

// timeout bounds a case: what a policy blocks is waited for several times over.
const timeout = 3 * time.Minute

// Cases returns the cases of network policies.
func Cases() []suite.Case {
	all := slices.Concat(isolationCases(), peerCases(), portCases(), changeCases())
	for i := range all {
		all[i].Component, all[i].Since, all[i].Timeout = suite.NetworkPolicy, "0.2", timeout
		all[i].Needs = append(all[i].Needs,
			suite.HasScheduler, suite.HasControllers, suite.RunsPods, suite.PodNetwork, suite.NetworkPolicies)
	}
	return all
}

// isolationCases are about which traffic policies isolate pods from.
func isolationCases() []suite.Case {
	return []suite.Case{
		{ID: "network-policy/deny-ingress", Run: denyIngress, Reference: policyDocs + "#default-deny-all-ingress-traffic",
			Requirement: "A policy of type Ingress without rules MUST block connections to the pods that it " +
				"selects, and not from them."},
		{ID: "network-policy/deny-egress", Run: denyEgress, Reference: policyDocs + "#default-deny-all-egress-traffic",
			Requirement: "A policy of type Egress without rules MUST block connections from the pods that it " +
				"selects, and not to them."},
		{ID: "network-policy/both-sides", Run: bothSides, Reference: isolation,
			Requirement: "A connection MUST be allowed by the egress policies of its source and the ingress " +
				"policies of its destination."},
		{ID: "network-policy/selected-only", Run: selectedOnly, Reference: isolation,
			Requirement: "A policy MUST NOT isolate pods that it does not select, of its own namespace or another one."},
		{ID: "network-policy/allow-all", Run: allowAll, Reference: policyDocs + "#allow-all-ingress-traffic",
			Requirement: "An empty ingress rule MUST allow every connection to the pods that its policy selects."},
		{ID: "network-policy/additive", Run: additive, Reference: isolation,
			Requirement: "Connections to a pod that several policies select MUST be allowed when one of the " +
				"policies allows them."},
		{ID: "network-policy/replies", Run: replies, Reference: isolation,
			Requirement: "Replies to an allowed connection MUST pass, whatever the policies say of the other direction."},
		{ID: "network-policy/self", Run: self, Reference: policyDocs,
			Requirement: "A pod MUST reach itself at its own address, whatever the policies say."},
		{ID: "network-policy/probes", Run: probes, Reference: policyDocs,
			Requirement: "The kubelet's probes MUST reach a pod that policies isolate, so that the pod becomes ready."},
		{ID: "network-policy/default-types", Run: defaultTypes, Reference: resource,
			Requirement: "A policy without types and egress rules MUST isolate for ingress alone, and one " +
				"with egress rules for both."},
	}
}

// peerCases test the peers of rules.
func peerCases() []suite.Case {
	return []suite.Case{
		{ID: "network-policy/pod-selector", Run: podSelector, Reference: selectors,
			Requirement: "A podSelector alone MUST allow the pods of the policy's own namespace that it " +
				"selects, and no others."},
		{ID: "network-policy/match-expressions", Run: matchExpressions, Reference: selectors,
			Requirement: "The expressions of a selector MUST all hold for the pods that it selects."},
		{ID: "network-policy/namespace-selector", Run: namespaceSelector, Reference: selectors,
			Requirement: "A namespaceSelector alone MUST allow all pods of the namespaces that it selects, and of no others."},
		{ID: "network-policy/namespace-name", Run: namespaceName,
			Reference:   policyDocs + "#targeting-a-namespace-by-its-name",
			Requirement: "A namespaceSelector MUST be able to select a namespace by its name."},
		{ID: "network-policy/both-selectors", Run: bothSelectors, Reference: selectors,
			Requirement: "A namespaceSelector and a podSelector in one peer MUST allow pods for which both " +
				"hold, and no others."},
		{ID: "network-policy/either-selector", Run: eitherSelector, Reference: selectors,
			Requirement: "A namespaceSelector and a podSelector in two peers MUST allow pods for which one of " +
				"them holds, and no others."},
		{ID: "network-policy/ip-block", Run: ipBlock, Reference: selectors,
			Requirement: "An ipBlock MUST allow the addresses of its range, but for those of its exceptions."},
		{ID: "network-policy/egress-pod-selector", Run: egressPodSelector, Reference: selectors,
			Requirement: "An egress rule MUST allow connections to the pods that it selects, and to no others."},
		{ID: "network-policy/egress-service", Run: egressService, Reference: filtering,
			Needs:       []suite.Feature{suite.ServiceNetwork},
			Requirement: "Connections to a cluster IP MUST be filtered by the pod behind it, and by that pod's port."},
		{ID: "network-policy/ingress-service", Run: ingressService, Reference: filtering,
			Needs:       []suite.Feature{suite.ServiceNetwork},
			Requirement: "Connections through a cluster IP MUST be filtered by the pod that makes them."},
	}
}

// portCases are about protocols and ports.
func portCases() []suite.Case {
	return []suite.Case{
		{ID: "network-policy/port", Run: port, Reference: resource,
			Requirement: "A rule with a port MUST allow connections to that port, and to no other."},
		{ID: "network-policy/port-range", Run: portRange, Reference: policyDocs + "#targeting-a-range-of-ports",
			Requirement: "A rule with an endPort MUST allow connections to all ports of the range, and to no other."},
		{ID: "network-policy/named-port", Run: namedPort, Reference: resource,
			Requirement: "A rule with the name of a port MUST allow connections to the port that each pod has " +
				"by that name, and to no other."},
		{ID: "network-policy/peer-and-port", Run: peerAndPort, Reference: resource,
			Requirement: "A rule MUST allow connections that match one of its peers and one of its ports, and " +
				"not those that match one alone."},
		{ID: "network-policy/protocol", Run: protocol, Reference: resource,
			Requirement: "A rule for a port of one protocol MUST NOT allow the other protocol, and MUST work " +
				"for UDP as for TCP."},
		{ID: "network-policy/egress-port", Run: egressPort, Reference: resource,
			Requirement: "An egress rule with a port MUST allow connections to that port of any destination, and to no other."},
	}
}

// changeCases are about policies, pods and namespaces that change.
func changeCases() []suite.Case {
	return []suite.Case{
		{ID: "network-policy/update", Run: update, Reference: filtering,
			Requirement: "A change of a policy MUST take effect on pods that run."},
		{ID: "network-policy/delete", Run: deleted, Reference: isolation,
			Requirement: "Pods MUST be reachable again when the last policy that isolates them is deleted."},
		{ID: "network-policy/pod-label", Run: podLabel, Reference: filtering,
			Requirement: "A change of a pod's labels MUST change what policies allow it, and whether they select it."},
		{ID: "network-policy/namespace-label", Run: namespaceLabel, Reference: filtering,
			Requirement: "A change of a namespace's labels MUST change what policies allow its pods."},
		{ID: "network-policy/new-pod", Run: newPod, Reference: policyDocs + "#pod-lifecycle",
			Requirement: "A pod that comes after a policy that selects it MUST be isolated from its start, " +
				"and allowed as its labels say."},
	}
}
