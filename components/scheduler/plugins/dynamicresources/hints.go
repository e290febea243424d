package dynamicresources

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Hints say which changes can help a pod: of nodes, of its claims, of what claims ask for, and of what others give
// back.
func (f *Plugin) Hints() []queue.Hint {
	nodes := queue.NodeAdded | queue.NodeLabels
	if f.Features.ExtendedResource {
		nodes |= queue.NodeAllocatable
	}
	return []queue.Hint{
		{Kinds: nodes},
		{Kinds: queue.ResourceClaimAdded | queue.ResourceClaimUpdated, Helps: f.claimHelps},
		{Kinds: queue.OwnResourceClaims, Helps: func(_ *snapshot.Pod, e queue.Event) bool { return f.Gated(e.Pod) == "" }},
		{Kinds: queue.DeviceClassAdded | queue.DeviceClassUpdated},
		{Kinds: queue.ResourceSliceAdded | queue.ResourceSliceUpdated},
		// A pod whose binding failed gives back what was about to be allocated for it.
		{Kinds: queue.PodRemoved, Helps: func(_ *snapshot.Pod, e queue.Event) bool { return mayClaim(e.OldPod) }},
	}
}

// claimHelps if it is the pod's and new or of another status, or if it was deallocated; never while a claim is missing.
func (f *Plugin) claimHelps(p *snapshot.Pod, e queue.Event) bool {
	now, ok := e.New.(*resourcev1.ResourceClaim)
	if !ok {
		return false
	}
	claims, err := claimsOf(p.Obj, f.Claim)
	if err != nil {
		return false
	}
	old, updated := e.Old.(*resourcev1.ResourceClaim)
	if updated && old.Status.Allocation != nil && now.Status.Allocation == nil {
		return true
	}
	for _, claim := range claims {
		if claim.UID == now.UID {
			return !updated || !equality.Semantic.DeepEqual(&old.Status, &now.Status)
		}
	}
	return false
}

// mayClaim tells whether a pod can have had devices.
func mayClaim(p *snapshot.Pod) bool {
	if p == nil {
		return false
	}
	if len(p.Obj.Spec.ResourceClaims) > 0 {
		return true
	}
	for name, amount := range p.Requests.Scalar {
		if amount > 0 && snapshot.IsExtended(name) {
			return true
		}
	}
	return false
}
