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
	all = append(all, slices.Concat(ofJobs(), ofCronJobs(), ofReplicas(), ofStatefulSets(), ofDaemonSets(), ofLimits(),
		ofTroubles())...)
	for i := range all {
		all[i].Component, all[i].Since = suite.Controllers, "0.1"
		all[i].Needs = append(all[i].Needs, suite.HasControllers)
	}
	return all
}
