// Package resourceclaim creates the ResourceClaims that pods ask for by templates, and keeps status.reservedFor of all
// claims in line with the pods that exist
// (https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#user-types).
//
// A claim that no pod needs any more loses its allocation, so that its devices are free again; one that was made for a
// pod is deleted when the pod has ended.
package resourceclaim

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
)

// podClaimAnnotation names the entry of spec.resourceClaims that a generated claim is for.
const podClaimAnnotation = "resource.kubernetes.io/pod-claim-name"

// maxGenerateName is how long a generated name may be before its random end.
const maxGenerateName = 57

// done tells whether a pod will never use its claims again.
func done(pod *v1.Pod) bool {
	return pods.Ended(pod) || (pod.DeletionTimestamp != nil && pod.Spec.NodeName == "")
}

// existing returns the claim that was made for an entry of the pod's claims; nil if there is none.
func existing(pod *v1.Pod, entry string, owned []*resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	for _, claim := range owned {
		if metav1.IsControlledBy(claim, pod) && claim.Annotations[podClaimAnnotation] == entry {
			return claim
		}
	}
	return nil
}

// claimFor returns the claim that an entry of the pod's claims asks for.
func claimFor(pod *v1.Pod, entry string, template *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	annotations := map[string]string{}
	for k, v := range template.Spec.Annotations {
		annotations[k] = v
	}
	annotations[podClaimAnnotation] = entry
	name := pod.Name + "-" + entry + "-"
	if n := len(name); n > maxGenerateName {
		// Both names stay recognizable: each gives up in proportion to its length.
		name = pod.Name[:len(pod.Name)*maxGenerateName/n] + "-" + entry[:len(entry)*maxGenerateName/n]
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, GenerateName: name, Labels: template.Spec.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
}

// statusOf returns the name of the claim that the pod's status has for an entry, and whether it has any.
func statusOf(pod *v1.Pod, entry string) (*string, bool) {
	for i := range pod.Status.ResourceClaimStatuses {
		if status := &pod.Status.ResourceClaimStatuses[i]; status.Name == entry {
			return status.ResourceClaimName, true
		}
	}
	return nil, false
}

// claimPlan is what to do about a claim, in this order.
type claimPlan struct {
	// status, if not nil, replaces the claim's.
	status *resourcev1.ResourceClaimStatus
	// finalizers, if not nil, replace the claim's.
	finalizers []string
	delete     bool
}

// planClaim decides on a claim. gone tells whether the pod of a reservation is not there any more, or done; owner is
// the pod that the claim was made for, nil if that is gone or there was none.
func planClaim(claim *resourcev1.ResourceClaim, gone func(name string, uid types.UID) bool, owner *v1.Pod) claimPlan {
	var plan claimPlan
	left := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor),
		func(by resourcev1.ResourceClaimConsumerReference) bool {
			return by.APIGroup == "" && by.Resource == "pods" && gone(by.Name, by.UID)
		})
	if len(left) > 0 {
		if len(left) < len(claim.Status.ReservedFor) {
			plan.status = claim.Status.DeepCopy()
			plan.status.ReservedFor = left
		}
		return plan
	}
	protected := slices.Contains(claim.Finalizers, resourcev1.Finalizer)
	released := len(claim.Status.ReservedFor) > 0
	if released || (protected && claim.DeletionTimestamp != nil && claim.Status.Allocation != nil) {
		plan.status = claim.Status.DeepCopy()
		plan.status.ReservedFor = nil
		if protected {
			plan.status.Allocation, plan.status.Devices = nil, nil
		}
	}
	if protected && (plan.status != nil || (claim.DeletionTimestamp != nil && claim.Status.Allocation == nil)) {
		plan.finalizers = slices.DeleteFunc(slices.Clone(claim.Finalizers),
			func(f string) bool { return f == resourcev1.Finalizer })
		if plan.finalizers == nil {
			plan.finalizers = []string{}
		}
	}
	plan.delete = owner != nil && done(owner) && claim.DeletionTimestamp == nil
	return plan
}

// reservation is how a pod stands in status.reservedFor.
func reservation(pod *v1.Pod) resourcev1.ResourceClaimConsumerReference {
	return resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// missesReservation tells whether a claim is to be reserved for a pod that got its node without the scheduler.
func missesReservation(claim *resourcev1.ResourceClaim, pod *v1.Pod) bool {
	return pod.Spec.NodeName != "" && !done(pod) && pod.DeletionTimestamp == nil && claim.DeletionTimestamp == nil &&
		claim.Status.Allocation != nil &&
		!slices.ContainsFunc(claim.Status.ReservedFor,
			func(by resourcev1.ResourceClaimConsumerReference) bool { return by.UID == pod.UID })
}

// mergedStatuses returns the pod's claim statuses with those that were made; nil if nothing is new.
func mergedStatuses(pod *v1.Pod, made map[string]string) []v1.PodResourceClaimStatus {
	changed := false
	var all []v1.PodResourceClaimStatus
	for i := range pod.Spec.ResourceClaims {
		entry := pod.Spec.ResourceClaims[i].Name
		name, known := statusOf(pod, entry)
		if fresh, ok := made[entry]; ok && (!known || ptr.Deref(name, "") != fresh) {
			name, known, changed = &fresh, true, true
		}
		if known {
			all = append(all, v1.PodResourceClaimStatus{Name: entry, ResourceClaimName: name})
		}
	}
	if !changed {
		return nil
	}
	return all
}
