package snapshot

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// claimWith has a version and some devices.
func claimWith(name, uid, version string, devices ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid),
		ResourceVersion: version}}
	for _, device := range devices {
		if c.Status.Allocation == nil {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Driver: "d", Pool: "p", Device: device})
	}
	return c
}

func has(s *Snapshot, device string) bool {
	return s.Allocated().AllocatedDevices.Has(structured.MakeDeviceID("d", "p", device))
}

// TestAllocatedDevices follows claims through what is decided, written and told of them.
func TestAllocatedDevices(t *testing.T) {
	s := New()
	expect := func(step, device string, want bool) {
		t.Helper()
		if has(s, device) != want {
			t.Errorf("%s: %s is allocated: %v", step, device, !want)
		}
	}
	s.SetResourceClaim(claimWith("c", "1", "10"))
	pending := claimWith("c", "1", "10", "x")
	s.BeginAllocation(pending)
	expect("decided", "x", true)
	s.SetResourceClaim(claimWith("c", "1", "11")) // its finalizer was added
	expect("another write", "x", true)
	if !s.WroteResourceClaim(claimWith("c", "1", "12", "x")) || !s.Allocating("1") {
		t.Error("the claim is not known, or not being allocated")
	}
	s.EndAllocation(pending)
	expect("written", "x", true)
	s.SetResourceClaim(claimWith("c", "1", "11"))
	expect("old news", "x", true)
	s.SetResourceClaim(claimWith("c", "1", "13"))
	expect("given back", "x", false)

	s.SetResourceClaim(claimWith("c", "1", "14", "y"))
	s.SetResourceClaim(claimWith("c", "2", "9", "z")) // deleted and made again
	expect("the old one", "y", false)
	expect("the new one", "z", true)
	s.RemoveResourceClaim(claimWith("c", "1", "14", "y"))
	expect("the old one went", "z", true)
	s.RemoveResourceClaim(claimWith("c", "2", "9"))
	expect("the new one went", "z", false)
	if s.WroteResourceClaim(claimWith("c", "2", "15", "z")) || has(s, "z") {
		t.Error("a claim that is gone came back")
	}

	s.SetResourceClaim(claimWith("a", "3", "1", "both"))
	s.SetResourceClaim(claimWith("b", "4", "1", "both"))
	s.RemoveResourceClaim(claimWith("a", "3", "1"))
	expect("one of two", "both", true)
	admin := claimWith("admin", "5", "1", "seen")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	s.SetResourceClaim(admin)
	expect("an administrator's", "seen", false)
}

// TestConsumedCapacity sums up the shares of a device.
func TestConsumedCapacity(t *testing.T) {
	s, id := New(), structured.MakeDeviceID("d", "p", "x")
	share := func(name, amount string) *resourcev1.ResourceClaim {
		c := claimWith(name, name, "1", "x")
		r := &c.Status.Allocation.Devices.Results[0]
		r.ShareID = ptr.To(types.UID("share-" + name))
		r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(amount)}
		return c
	}
	s.SetResourceClaim(share("a", "2Gi"))
	s.SetResourceClaim(share("b", "3Gi"))
	if got := s.Allocated().AggregatedCapacity[id]["memory"]; got == nil || got.String() != "5Gi" || has(s, "x") {
		t.Errorf("consumed %v", got)
	}
	s.RemoveResourceClaim(share("a", "2Gi"))
	if got := s.Allocated().AggregatedCapacity[id]["memory"]; got == nil || got.String() != "3Gi" {
		t.Errorf("consumed %v", got)
	}
	s.RemoveResourceClaim(share("b", "3Gi"))
	if state := s.Allocated(); len(state.AggregatedCapacity)+len(state.AllocatedSharedDeviceIDs) != 0 {
		t.Errorf("left %+v", state)
	}
}

// TestDeviceClassFor: the newest class serves an extended resource, and the lowest name of equally new ones.
func TestDeviceClassFor(t *testing.T) {
	s := New()
	class := func(name string, age int64) {
		s.SetDeviceClass(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.Unix(1000-age, 0)},
			Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/gpu")}})
	}
	serves := func(want string) {
		t.Helper()
		name := ""
		if class := s.DeviceClassFor("example.com/gpu"); class != nil {
			name = class.Name
		}
		if name != want {
			t.Errorf("served by %q, want %q", name, want)
		}
	}
	serves("")
	class("old", int64(time.Hour/time.Second))
	serves("old")
	class("b", 0)
	class("a", 0)
	serves("a")
	s.RemoveDeviceClass("a")
	serves("b")
	if s.DeviceClassFor("deviceclass.resource.kubernetes.io/old").Name != "old" ||
		s.DeviceClassFor("deviceclass.resource.kubernetes.io/gone") != nil {
		t.Error("classes are not found by the resources that name them")
	}
	for name, want := range map[string]bool{"cpu": false, "example.com/gpu": true, "requests.example.com/gpu": false,
		"kubernetes.io/x": false, "example.com/a b": false, "deviceclass.resource.kubernetes.io/x": true} {
		if got := IsExtended(v1.ResourceName(name)); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
