package queue

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// ownChanges names what changed in a waiting pod that can matter to a plug-in.
func ownChanges(old, now *snapshot.Pod) Kind {
	var kinds Kind
	if !maps.Equal(old.Obj.Labels, now.Obj.Labels) {
		kinds |= OwnLabels
	}
	if !equality.Semantic.DeepEqual(old.Obj.Spec.Tolerations, now.Obj.Spec.Tolerations) {
		kinds |= OwnTolerations
	}
	if less(&now.Requests, &old.Requests) {
		kinds |= OwnRequests
	}
	if len(old.Obj.Spec.SchedulingGates) > len(now.Obj.Spec.SchedulingGates) {
		kinds |= OwnGates
	}
	if !resourceclaim.PodStatusEqual(old.Obj.Status.ResourceClaimStatuses, now.Obj.Status.ResourceClaimStatuses) {
		kinds |= OwnResourceClaims
	}
	return kinds
}

// less tells whether a requests less than b of any resource.
func less(a, b *snapshot.Resources) bool {
	if a.CPU < b.CPU || a.Memory < b.Memory || a.Ephemeral < b.Ephemeral {
		return true
	}
	for name, amount := range b.Scalar {
		if a.Scalar[name] < amount {
			return true
		}
	}
	return false
}

// Shrunk tells whether a bound pod requests less than before.
func Shrunk(old, now *snapshot.Pod) bool { return less(&now.Requests, &old.Requests) }
