package dynamicresources

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/cycle"
	. "quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// world is a cluster that changes at random.
type world struct {
	*rand.Rand
	*snapshot.Snapshot
	plugin *Plugin
}

const worldNodes = 6

func (w *world) node() string { return fmt.Sprint("n", w.IntN(worldNodes)) }

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 11)), Snapshot: Snapshot(DeviceClass("gpu", nil)), plugin: plugin(nil)}
	for i := range worldNodes {
		w.SetNode(Node(fmt.Sprint("n", i), fmt.Sprint("zone=", i%2)))
	}
	return w
}

func (w *world) device(name string) resourcev1.Device {
	return Device(name, []string{"old", "new"}[w.IntN(2)], func(d *resourcev1.Device) {
		switch w.IntN(8) {
		case 0:
			d.Taints = []resourcev1.DeviceTaint{{Key: "k", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		case 1:
			d.AllowMultipleAllocations = ptr.To(true)
			d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("4Gi")}}
		}
	})
}

// slice is of a node, of some nodes or all, or of a pool that several nodes have slices of.
func (w *world) slice() *resourcev1.ResourceSlice {
	var devices []resourcev1.Device
	for i := range w.IntN(3) {
		devices = append(devices, w.device(fmt.Sprint("d", i)))
	}
	s := Slice(w.node(), devices...)
	s.Spec.Pool.Generation = int64(1 + w.IntN(2))
	switch w.IntN(10) {
	case 0:
		s.Name, s.Spec.Pool.Name, s.Spec.NodeName, s.Spec.AllNodes = "fabric", "fabric", nil, ptr.To(true)
	case 1:
		s.Name, s.Spec.Pool.Name, s.Spec.NodeName = "zonal", "zonal", nil
		s.Spec.NodeSelector = &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"1"}}}}},
		}
	case 2, 3:
		i := w.IntN(3)
		s.Name, s.Spec.Pool.Name, s.Spec.NodeName = fmt.Sprint("rack-", i), "rack", ptr.To(fmt.Sprint("n", i))
		s.Spec.Pool.ResourceSliceCount = 3
		for d := range s.Spec.Devices {
			s.Spec.Devices[d].Name += fmt.Sprint("-", i)
		}
	case 4:
		w.partition(s)
	}
	return s
}

// partition makes a slice one of the devices or of the counters of a pool of partitions.
func (w *world) partition(s *resourcev1.ResourceSlice) {
	s.Spec.Pool.Name, s.Spec.Pool.ResourceSliceCount = "card-"+*s.Spec.NodeName, 2
	if w.IntN(2) == 0 {
		s.Name, s.Spec.Devices = s.Spec.Pool.Name+"-counters", nil
		s.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "card",
			Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("8Gi")}}}}
		return
	}
	s.Name = s.Spec.Pool.Name + "-devices"
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "card",
			Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("5Gi")}}}}
	}
}

// claims are of few kinds, so that answers are asked for again.
func (w *world) claims(step int) []*resourcev1.ResourceClaim {
	var claims []*resourcev1.ResourceClaim
	for i := range 1 + w.IntN(2) {
		request := Exactly("r", "gpu", int64(1+w.IntN(2)))
		switch w.IntN(6) {
		case 0:
			request = FirstModel("r", "gpu", "new", "old")
		case 1:
			request.Exactly.AllocationMode, request.Exactly.Count = resourcev1.DeviceAllocationModeAll, 0
		case 2:
			request = tolerating(request)
		case 3:
			request.Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
				"memory": resource.MustParse("1Gi")}}
		}
		claim := ResourceClaim(fmt.Sprint("c", step, "-", i), request)
		if w.IntN(6) == 0 {
			claim.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{
				MatchAttribute: ptr.To(resourcev1.FullyQualifiedName(Driver + "/model"))}}
		}
		claims = append(claims, claim)
		w.SetResourceClaim(claim)
	}
	return claims
}

func (w *world) change(allocated *[]*resourcev1.ResourceClaim) {
	switch w.IntN(7) {
	case 0:
		if slices := w.ResourceSlices(); len(slices) > 0 {
			w.RemoveResourceSlice(slices[w.IntN(len(slices))].Name)
		}
	case 1:
		if n := len(*allocated); n > 0 {
			i := w.IntN(n)
			w.EndAllocation((*allocated)[i])
			w.RemoveResourceClaim((*allocated)[i])
			*allocated = slices.Delete(*allocated, i, i+1)
		}
	case 2:
		w.SetNode(Node(w.node(), fmt.Sprint("zone=", w.IntN(2))))
	case 3:
		w.SetDeviceClass(DeviceClass("gpu", func(c *resourcev1.DeviceClass) {
			if w.IntN(3) == 0 {
				c.Spec.Selectors[0].CEL.Expression = `device.attributes["` + Driver + `"].model == "new"`
			}
		}))
	default:
		w.SetResourceSlice(w.slice())
	}
}

// allocate asks the allocator about a node as if nothing were known.
func (w *world) allocate(t *testing.T, n *snapshot.Node,
	claims []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, string) {
	t.Helper()
	allocator, err := structured.NewAllocator(t.Context(), w.plugin.Features.Features, w.Allocated(), classes{w.Snapshot},
		w.ResourceSlices(), w.plugin.compiled)
	if err != nil {
		t.Fatal(err)
	}
	got, err := allocator.Allocate(context.Background(), n.Obj, claims)
	switch {
	case err != nil:
		return nil, err.Error()
	case len(got) != len(claims):
		return nil, reasonCannotAllocate
	}
	return got, ""
}

func reasonOf(r *cycle.Refusal) string {
	switch {
	case r == nil:
		return ""
	case r.Err != nil:
		return r.Err.Error()
	}
	return r.Reasons[0]
}

// TestAnswersHold: answers that are kept are those of a new allocator over all slices, whatever changes, and so are the
// devices that the chosen node gives.
func TestAnswersHold(t *testing.T) {
	kept, chosen := 0, 0
	for seed := range uint64(40) {
		w := newWorld(seed)
		var allocated []*resourcev1.ResourceClaim
		for step := range 100 {
			if step < worldNodes || w.IntN(3) == 0 {
				w.change(&allocated)
			}
			claims := w.claims(step)
			names := make([]string, len(claims))
			for i, claim := range claims {
				names[i] = claim.Name
			}
			prepared, refusal := w.plugin.Filter(snapshot.NewPod(Pod("p", "", Claiming(names...))), w.Snapshot)
			if refusal != nil {
				t.Fatal(refusal)
			}
			asked := prepared.(*test)
			var fitting []*snapshot.Node
			for _, n := range w.Nodes() {
				_, want := w.allocate(t, n, claims)
				got := reasonOf(asked.Check(n))
				if got != want {
					t.Fatalf("seed %d, step %d, %s: %q, want %q", seed, step, n.Name, got, want)
				}
				if got == "" {
					fitting = append(fitting, n)
				}
				if _, fresh := asked.fresh[n.Name]; !fresh {
					kept++
				}
			}
			if len(fitting) == 0 || w.IntN(2) == 0 {
				continue
			}
			n := fitting[w.IntN(len(fitting))]
			want, _ := w.allocate(t, n, claims)
			decided := asked.Keep(n).(*plan)
			for i, allocation := range decided.allocations {
				if diff := cmp.Diff(&want[i], allocation, cmpopts.IgnoreFields(resourcev1.DeviceRequestAllocationResult{},
					"ShareID")); diff != "" {
					t.Fatalf("seed %d, step %d, %s: %s", seed, step, n.Name, diff)
				}
				pending := allocatedAs(claims[i], allocation)
				w.BeginAllocation(pending)
				allocated = append(allocated, pending)
				chosen++
			}
		}
	}
	if kept < 1500 || chosen < 200 {
		t.Errorf("only %d answers were kept, %d claims allocated", kept, chosen)
	}
}

// TestAnswersAreForgotten: no more answers are kept than of maxAnswers kinds of claims, and of twice the nodes.
func TestAnswersAreForgotten(t *testing.T) {
	s := cluster()
	var a answers
	for i := range 3 * maxAnswers {
		a.find(s, "always")
		a.find(s, fmt.Sprint(i))
	}
	if len(a.to) != maxAnswers || a.to["always"] == nil || a.to["0"] != nil {
		t.Errorf("answers to %d kinds of claims are kept", len(a.to))
	}
	for i := range 100 {
		a.find(s, "always").put(Node(fmt.Sprint("gone-", i), ""), snapshot.DeviceVersion{}, answer{})
	}
	if n := len(a.to["always"].byNode); n > 7 {
		t.Errorf("answers of %d nodes are kept for 3", n)
	}
	if n := a.find(cluster(), "always"); len(n.byNode) != 0 {
		t.Error("answers of another snapshot are kept")
	}
}

// TestAnswersFollowLabels: devices for some nodes are those of a node only while it has the labels.
func TestAnswersFollowLabels(t *testing.T) {
	zonal := Slice("zonal", Device("d0", "m", nil))
	zonal.Spec.NodeName = nil
	zonal.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"1"}}}}}}
	s := Snapshot(DeviceClass("gpu", nil), zonal, ResourceClaim("x", Exactly("r", "gpu", 1)))
	f := plugin(nil)
	for i, zone := range []string{"0", "1", "1", "0"} {
		s.SetNode(Node("n", "zone="+zone))
		want := ""
		if zone == "0" {
			want = "!" + reasonCannotAllocate
		}
		if got := Check(f, Pod("p", "", Claiming("x")), s)["n"]; got != want {
			t.Errorf("%d: in zone %s: %q, want %q", i, zone, got, want)
		}
	}
}
