package dynamicresources

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Score prefers nodes where claims get alternatives that come first in their lists (KEP-4816).
func (f *Plugin) Score(p *snapshot.Pod, _ *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool {
	t := f.last
	if t == nil || t.pod != p || !t.prioritizes() {
		return false
	}
	for i, n := range nodes {
		scores[i] = 0
		if w, refusal := t.wantedOn(n); refusal == nil && len(w.claims) > 0 {
			scores[i] = t.ask(n, w).rank
		}
	}
	cycle.Normalize(scores, false)
	return true
}

// prioritizes tells whether a claim that is to be allocated has a list of alternatives.
func (t *test) prioritizes() bool {
	for _, claim := range t.claims {
		if claim.Status.Allocation != nil {
			continue
		}
		for i := range claim.Spec.Devices.Requests {
			if len(claim.Spec.Devices.Requests[i].FirstAvailable) > 0 {
				return true
			}
		}
	}
	return false
}

// rank sums up, over all requests with alternatives, how far in front the one is that was taken.
func rank(claims []*resourcev1.ResourceClaim, allocations []*resourcev1.AllocationResult) int64 {
	var sum int64
	for i, claim := range claims {
		if allocations[i] == nil {
			continue
		}
		taken := sets.New[string]()
		for _, result := range allocations[i].Devices.Results {
			taken.Insert(result.Request)
		}
		for r := range claim.Spec.Devices.Requests {
			request := &claim.Spec.Devices.Requests[r]
			for k := range request.FirstAvailable {
				if taken.Has(resourceclaim.CreateSubRequestRef(request.Name, request.FirstAvailable[k].Name)) {
					sum += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - k)
				}
			}
		}
	}
	return sum
}
