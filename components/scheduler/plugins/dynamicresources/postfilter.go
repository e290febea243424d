package dynamicresources

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
)

// The messages of PostFilter, as upstream words them.
const (
	messageNothing     = "no new claims to deallocate"
	messageStill       = "still not schedulable"
	messageDeallocated = "deallocation of ResourceClaim completed"
	messageDeleted     = "deletion of ResourceClaim completed"
)

// PostFilter deallocates a claim that keeps the pod from nodes and that no other pod uses, or deletes the claim that an
// earlier attempt left. Where a plug-in before this one refused all nodes, upstream misses the state of this plug-in's
// own filter and stops there.
func (f *Plugin) PostFilter(a *cycle.Attempt, _ []cycle.Refused, _ string) cycle.PostFilterResult {
	if a.Missed(Name) {
		return cycle.PostFilterResult{Message: "not found", Last: true}
	}
	t, ok := a.Test(Name).(*test)
	if !ok {
		return cycle.PostFilterResult{Message: messageNothing}
	}
	if claim := t.idle(); claim != nil {
		return cycle.PostFilterResult{Message: messageDeallocated, Writes: func(ctx context.Context) error {
			return f.deallocate(ctx, claim)
		}}
	}
	if t.special >= 0 && t.claims[t.special].Name != unwritten {
		claim := t.claims[t.special]
		return cycle.PostFilterResult{Message: messageDeleted, Writes: func(ctx context.Context) error {
			return f.delete(ctx, claim)
		}}
	}
	return cycle.PostFilterResult{Message: messageStill}
}

// idle returns a claim that refused nodes and that no other pod has reserved; nil if there is none.
func (t *test) idle() *resourcev1.ResourceClaim {
	for _, i := range t.unavailable {
		claim := t.claims[i]
		by := claim.Status.ReservedFor
		if i != t.special && (len(by) == 0 || len(by) == 1 && by[0].UID == t.pod.UID()) {
			return claim
		}
	}
	return nil
}

func (f *Plugin) deallocate(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	claim = claim.DeepCopy()
	claim.Status.ReservedFor, claim.Status.Allocation, claim.Status.Devices = nil, nil, nil
	_, err := f.Client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}
