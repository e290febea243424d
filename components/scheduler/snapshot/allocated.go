package snapshot

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// allocated sums up which devices claims have. Devices for administrators (adminAccess) do not count.
type allocated struct {
	state structured.AllocatedState
	// by is what was counted of each claim; users is how many claims have a device for themselves.
	by    map[types.UID]*resourcev1.AllocationResult
	users map[structured.DeviceID]int
	// changed is told of each pool whose devices are counted in another way.
	changed func(poolID)
}

func newAllocated(changed func(poolID)) allocated {
	return allocated{
		changed: changed,
		state: structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		},
		by:    map[types.UID]*resourcev1.AllocationResult{},
		users: map[structured.DeviceID]int{},
	}
}

// charge replaces what is counted of a claim; nil is nothing.
func (a *allocated) charge(uid types.UID, claim *resourcev1.ResourceClaim) {
	var now *resourcev1.AllocationResult
	if claim != nil {
		now = claim.Status.Allocation
	}
	old := a.by[uid]
	if old == now {
		return
	}
	if old != nil {
		delete(a.by, uid)
		a.count(old, -1)
	}
	if now != nil {
		a.by[uid] = now
		a.count(now, 1)
	}
}

func (a *allocated) count(allocation *resourcev1.AllocationResult, sign int) {
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		if ptr.Deref(result.AdminAccess, false) {
			continue
		}
		a.changed(poolID{result.Driver, result.Pool})
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if result.ShareID == nil {
			a.countDevice(id, sign)
			continue
		}
		shared := structured.MakeSharedDeviceID(id, result.ShareID)
		consumed := structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity)
		if sign > 0 {
			a.state.AllocatedSharedDeviceIDs.Insert(shared)
			a.state.AggregatedCapacity.Insert(consumed)
		} else {
			a.state.AllocatedSharedDeviceIDs.Delete(shared)
			a.state.AggregatedCapacity.Remove(consumed)
		}
	}
}

func (a *allocated) countDevice(id structured.DeviceID, sign int) {
	if a.users[id] += sign; a.users[id] > 0 {
		a.state.AllocatedDevices.Insert(id)
		return
	}
	delete(a.users, id)
	a.state.AllocatedDevices.Delete(id)
}
