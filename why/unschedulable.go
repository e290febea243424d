package why

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"
)

// UnschedulableHelp returns what helps against each of the scheduler's reasons that are in a message: of the condition
// PodScheduled, or of one refusal. Reasons of plug-ins that are not Kubernetes' own are not known.
func UnschedulableHelp(message string) []string {
	var all []string
	for _, each := range []struct{ text, help string }{ // a text with a * has two parts
		{"no nodes available", "Add a node."},
		{"Insufficient ", "Lower its requests, delete other pods, or add a node."},
		{"Too many pods", "Delete other pods, or add a node."},
		{"untolerated taint", "Tolerate the taint, or remove it from the nodes."},
		{"didn't match Pod's node affinity/selector", "Label a node so that it matches, or change the selector."},
		{"didn't match pod affinity", "Start a pod that its affinity asks for, or relax the affinity."},
		{"satisfy existing pods anti-affinity", "Add a node, or relax the anti-affinity of the pods that keep it away."},
		{"didn't match pod anti-affinity", "Lower replicas, add a node, or relax the anti-affinity."},
		{"(missing required label)", "Label the nodes with the topologyKey of its spread constraints."},
		{"didn't match pod topology spread constraints",
			"Add nodes to the emptier domains, or set whenUnsatisfiable: ScheduleAnyway."},
		{"free ports for the requested pod ports", "Use another hostPort, or a Service."},
		{"node(s) were unschedulable", "Uncordon a node: kubectl uncordon NAME."},
		{"waiting for scheduling gates",
			"Their controllers remove them from spec.schedulingGates when the pod may be scheduled."},
		{"persistentvolumeclaim \"*not found", "Create the PersistentVolumeClaim, or correct the name in spec.volumes."},
		{"unbound immediate PersistentVolumeClaims",
			"Create a PersistentVolume that the claim matches, or a StorageClass that provisions one."},
		{"available persistent volumes to bind",
			"Create a PersistentVolume that the claim matches and a node reaches, or a StorageClass that provisions one."},
		{"volume node affinity conflict", "Make room on the nodes that reach the volume; it is on no other."},
		{"max volume count", "Delete other pods with volumes, or add a node."},
		{"resourceclaim*not found", "Create the ResourceClaim, or correct the name in spec.resourceClaims."},
		{"cannot allocate all claims", "Free devices, add some, or relax the requests of the claim."},
	} {
		before, after, _ := strings.Cut(each.text, "*")
		if _, rest, found := strings.Cut(message, before); found && strings.Contains(rest, after) {
			all = append(all, each.help)
		}
	}
	return all
}

// missingResourceClaims are the claims that keep a pod from being looked at by the scheduler: it waits for them without
// a condition.
func (s *Snapshot) missingResourceClaims(p *corev1.Pod) []Cause {
	if !s.known("ResourceClaim") {
		return nil
	}
	var causes []Cause
	for i := range p.Spec.ResourceClaims {
		entry := &p.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(p, entry)
		switch {
		case err != nil: // it is to be made from a template
			causes = append(causes, Cause{Reason: "ResourceClaimMissing",
				Message: fmt.Sprintf("No ResourceClaim was made for %s yet, from ResourceClaimTemplate %s.", entry.Name,
					ptr.Deref(entry.ResourceClaimTemplateName, "")),
				Help: "Create the template, or look at the resourceclaim controller's logs."})
		case name != nil && !s.ResourceClaims[*name]:
			causes = append(causes, Cause{Reason: "ResourceClaimMissing",
				Message: fmt.Sprintf("ResourceClaim %s does not exist.", *name),
				Help:    "Create it, or correct the name in spec.resourceClaims."})
		}
	}
	return causes
}
