package dynamicresources

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/cycle"
	. "quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

var start = time.Unix(1000, 0)

// on are the features that are on by default.
func on() Features {
	return Features{ExtendedResource: true, FilterTimeout: true, Features: structured.Features{
		AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
		PartitionableDevices: true, PrioritizedList: true}}
}

func plugin(change func(*Features)) *Plugin {
	features := on()
	if change != nil {
		change(&features)
	}
	return New(Config{Features: features, FilterTimeout: DefaultFilterTimeout, BindingTimeout: time.Minute,
		Clock: clocktesting.NewFakePassiveClock(start)})
}

// cluster is three nodes: a has two devices of model old, b one of model new, c none.
func cluster(more ...metav1.Object) *snapshot.Snapshot {
	return Snapshot(append([]metav1.Object{
		Node("a", ""), Node("b", ""), Node("c", ""), DeviceClass("gpu", nil),
		Slice("a", Device("a0", "old", nil), Device("a1", "old", nil)), Slice("b", Device("b0", "new", nil)),
	}, more...)...)
}

func everywhere(why string) map[string]string { return map[string]string{"a": why, "b": why, "c": why} }

func without(why string, nodes ...string) map[string]string {
	said := everywhere(why)
	maps.DeleteFunc(said, func(node, _ string) bool {
		return strings.Contains(strings.Join(nodes, " "), node)
	})
	return said
}

func tolerating(r resourcev1.DeviceRequest) resourcev1.DeviceRequest {
	r.Exactly.Tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
	return r
}

func TestFilter(t *testing.T) {
	one := Exactly("r", "gpu", 1)
	generated := func(p *v1.Pod) {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("template")}}
	}
	tainted := Slice("b", Device("b0", "new", func(d *resourcev1.Device) {
		d.Taints = []resourcev1.DeviceTaint{{Key: "k", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	}))
	many := ReservedFor(Allocated(ResourceClaim("x", one), "r", "a", "a0"), strings.Fields(strings.Repeat("p ", 256))...)
	for i := range many.Status.ReservedFor {
		many.Status.ReservedFor[i].UID = types.UID(strings.Repeat("u", i+1))
	}
	admin := Exactly("r", "gpu", 1)
	admin.Exactly.AdminAccess = ptr.To(true)
	deleted := ResourceClaim("x", one)
	deleted.DeletionTimestamp = &metav1.Time{}
	broken := DeviceClass("gpu", func(c *resourcev1.DeviceClass) {
		c.Spec.Selectors[0].CEL.Expression = `device.attributes["other"].nothing == 1`
	})
	for name, c := range map[string]struct {
		objects  []metav1.Object
		pod      func(*v1.Pod)
		features func(*Features)
		want     map[string]string
	}{
		"no claims":    {},
		"missing":      {pod: Claiming("x"), want: everywhere(`!resourceclaim.resource.k8s.io "x" not found`)},
		"not made yet": {pod: generated, want: everywhere(`!pod "default/p": ResourceClaim not created yet`)},
		"another pod's": {objects: []metav1.Object{ResourceClaim("x", one)}, pod: func(p *v1.Pod) {
			generated(p)
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: ptr.To("x")}}
		}, want: everywhere("!ResourceClaim default/x was not created for Pod default/p (Pod is not owner)")},
		"none needed": {pod: func(p *v1.Pod) {
			generated(p)
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "x"}}
		}},
		"being deleted": {objects: []metav1.Object{deleted}, pod: Claiming("x"),
			want: everywhere(`!resourceclaim "x" is being deleted`)},
		"no class": {objects: []metav1.Object{ResourceClaim("x", Exactly("r", "nic", 1))}, pod: Claiming("x"),
			want: everywhere("!request r: device class nic does not exist")},
		"no class of an alternative": {objects: []metav1.Object{ResourceClaim("x", FirstModel("r", "nic", "new"))},
			pod: Claiming("x"), want: everywhere("!request r/new: device class nic does not exist")},
		"a request of the future": {objects: []metav1.Object{ResourceClaim("x", resourcev1.DeviceRequest{Name: "r"})},
			pod: Claiming("x"), want: everywhere("!resource claim default/x, request r: unknown request type")},
		"alternatives are off": {objects: []metav1.Object{ResourceClaim("x", FirstModel("r", "gpu", "new"))},
			pod: Claiming("x"), features: func(f *Features) { f.PrioritizedList = false },
			want: everywhere("!resource claim default/x, request r: has subrequests, but the DRAPrioritizedList feature " +
				"is disabled")},
		"one": {objects: []metav1.Object{ResourceClaim("x", one)}, pod: Claiming("x"),
			want: without("!"+reasonCannotAllocate, "a", "b")},
		"two of a node": {objects: []metav1.Object{ResourceClaim("x", Exactly("r", "gpu", 2))}, pod: Claiming("x"),
			want: without("!"+reasonCannotAllocate, "a")},
		"two claims": {objects: []metav1.Object{ResourceClaim("x", one), ResourceClaim("y", one)}, pod: Claiming("x", "y"),
			want: without("!"+reasonCannotAllocate, "a")},
		"taken by others": {objects: []metav1.Object{ResourceClaim("x", one),
			Allocated(ResourceClaim("other", one), "r", "b", "b0")}, pod: Claiming("x"),
			want: without("!"+reasonCannotAllocate, "a")},
		"an administrator shares": {objects: []metav1.Object{ResourceClaim("x", admin),
			Allocated(ResourceClaim("other", one), "r", "b", "b0")}, pod: Claiming("x"),
			want: without("!"+reasonCannotAllocate, "a", "b")},
		"tainted": {objects: []metav1.Object{ResourceClaim("x", one), tainted}, pod: Claiming("x"),
			want: without("!"+reasonCannotAllocate, "a")},
		"taints are off": {objects: []metav1.Object{ResourceClaim("x", one), tainted}, pod: Claiming("x"),
			features: func(f *Features) { f.DeviceTaints = false }, want: without("!"+reasonCannotAllocate, "a", "b")},
		"tolerated": {objects: []metav1.Object{ResourceClaim("x", tolerating(Exactly("r", "gpu", 1))), tainted},
			pod: Claiming("x"), want: without("!"+reasonCannotAllocate, "a", "b")},
		"allocated elsewhere": {objects: []metav1.Object{Allocated(ResourceClaim("x", one), "r", "a", "a0")},
			pod: Claiming("x"), want: without("!"+reasonUnavailable, "a")},
		"in use": {objects: []metav1.Object{many}, pod: Claiming("x"), want: everywhere("!resourceclaim in use")},
		"a selector that fails": {objects: []metav1.Object{ResourceClaim("x", one), broken}, pod: Claiming("x"),
			want: map[string]string{"a": "", "b": "", "c": "!" + reasonCannotAllocate}},
	} {
		got := Check(plugin(c.features), Pod("p", "", c.pod), cluster(c.objects...))
		if c.want == nil {
			c.want = map[string]string{}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPending: a claim whose allocation is under way has to be waited for, and its devices are not given to others.
func TestPending(t *testing.T) {
	s := cluster(ResourceClaim("x", Exactly("r", "gpu", 1)), ResourceClaim("y", Exactly("r", "gpu", 1)))
	pending := Allocated(ResourceClaim("x", Exactly("r", "gpu", 1)), "r", "b", "b0")
	s.BeginAllocation(pending)
	want := everywhere("!resource claim default/x is in the process of being allocated")
	if got := Check(plugin(nil), Pod("p", "", Claiming("x")), s); !maps.Equal(got, want) {
		t.Errorf("the claim itself: %v", got)
	}
	got := Check(plugin(nil), Pod("p", "", Claiming("y")), s)
	if want := without("!"+reasonCannotAllocate, "a"); !maps.Equal(got, want) {
		t.Errorf("another claim: %v", got)
	}
	s.EndAllocation(pending)
	got = Check(plugin(nil), Pod("p", "", Claiming("y")), s)
	if want := without("!"+reasonCannotAllocate, "a", "b"); !maps.Equal(got, want) {
		t.Errorf("after it failed: %v", got)
	}
}

// TestConsumable: a device with capacity is shared until it is used up, if the feature is on.
func TestConsumable(t *testing.T) {
	wants := func(name, amount string) *resourcev1.ResourceClaim {
		r := Exactly("r", "gpu", 1)
		r.Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			"memory": resource.MustParse(amount)}}
		return ResourceClaim(name, r)
	}
	shared := func(d *resourcev1.Device) {
		d.AllowMultipleAllocations = ptr.To(true)
		d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("8Gi")}}
	}
	taken := Allocated(wants("taken", "6Gi"), "r", "n", "d")
	result := &taken.Status.Allocation.Devices.Results[0]
	result.ShareID, result.ConsumedCapacity = ptr.To[types.UID]("share"),
		map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("6Gi")}
	s := Snapshot(Node("n", ""), DeviceClass("gpu", nil), Slice("n", Device("d", "m", shared)), taken,
		wants("small", "2Gi"), wants("large", "3Gi"), ResourceClaim("any", Exactly("r", "gpu", 1)))
	off := func(f *Features) { f.ConsumableCapacity = false }
	for name, c := range map[string]struct {
		claim    string
		features func(*Features)
		want     string
	}{
		"what is left": {"small", nil, ""}, "more than that": {"large", nil, "!" + reasonCannotAllocate},
		"not shared": {"any", off, "!" + reasonCannotAllocate},
	} {
		if got := Check(plugin(c.features), Pod("p", "", Claiming(c.claim)), s)["n"]; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	s.RemoveResourceClaim(taken)
	if got := Check(plugin(nil), Pod("p", "", Claiming("large")), s)["n"]; got != "" {
		t.Errorf("after the other claim went: %q", got)
	}
}

// TestPartitions: partitions of a device share its counters.
func TestPartitions(t *testing.T) {
	consumes := func(amount string) func(*resourcev1.Device) {
		return func(d *resourcev1.Device) {
			d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "card",
				Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(amount)}}}}
		}
	}
	devices := Slice("n", Device("half-0", "half", consumes("4Gi")), Device("half-1", "half", consumes("4Gi")),
		Device("whole", "whole", consumes("8Gi")))
	devices.Spec.Pool.ResourceSliceCount = 2
	counters := Slice("n")
	counters.Name, counters.Spec.Pool.ResourceSliceCount = "counters", 2
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "card",
		Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("8Gi")}}}}
	s := Snapshot(Node("n", ""), DeviceClass("gpu", nil), devices, counters,
		Allocated(ResourceClaim("taken", Exactly("r", "gpu", 1)), "r", "n", "half-0"),
		ResourceClaim("half", FirstModel("r", "gpu", "half")), ResourceClaim("whole", FirstModel("r", "gpu", "whole")))
	for claim, want := range map[string]string{"half": "", "whole": "!" + reasonCannotAllocate} {
		if got := Check(plugin(nil), Pod("p", "", Claiming(claim)), s)["n"]; got != want {
			t.Errorf("%s: %q, want %q", claim, got, want)
		}
	}
}

// TestScore: nodes rank by how far in front the alternatives are that they have.
func TestScore(t *testing.T) {
	for name, c := range map[string]struct {
		request resourcev1.DeviceRequest
		want    map[string]int64
	}{
		"new first":       {FirstModel("r", "gpu", "new", "old"), map[string]int64{"a": 87, "b": 100}},
		"old first":       {FirstModel("r", "gpu", "old", "new"), map[string]int64{"a": 100, "b": 87}},
		"no alternatives": {Exactly("r", "gpu", 1), nil},
	} {
		s, f := cluster(ResourceClaim("x", c.request)), plugin(nil)
		s.RemoveNode("c")
		p := snapshot.NewPod(Pod("p", "", Claiming("x")))
		test, refusal := f.Filter(p, s)
		if refusal != nil {
			t.Fatal(refusal)
		}
		for _, n := range s.Nodes() {
			if refused := test.Check(n); refused != nil {
				t.Fatalf("%s: %s: %+v", name, n.Name, refused)
			}
		}
		scores := make([]int64, 2)
		var got map[string]int64
		if f.Score(p, s, s.Nodes(), scores) {
			got = map[string]int64{s.Nodes()[0].Name: scores[0], s.Nodes()[1].Name: scores[1]}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if f.Score(snapshot.NewPod(Pod("other", "", nil)), s, s.Nodes(), scores) {
			t.Errorf("%s: another pod was scored by this one's claims", name)
		}
	}
}

// attempt runs a cycle with this plug-in alone.
func attempt(f *Plugin, pod *v1.Pod, s *snapshot.Snapshot) *cycle.Decision {
	profile := cycle.Profile{Filters: []cycle.Filter{f}, PostFilters: []cycle.PostFilter{f}}
	return profile.Schedule(s, cycle.Request{Pod: snapshot.NewPod(pod)})
}

func TestPostFilterMessages(t *testing.T) {
	gone := func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
		return Allocated(c, "r", "gone", "d")
	}
	claim := func() *resourcev1.ResourceClaim { return ResourceClaim("x", Exactly("r", "gpu", 1)) }
	for name, c := range map[string]struct {
		claim  *resourcev1.ResourceClaim
		want   string
		writes bool
	}{
		"missing":              {ResourceClaim("other"), messageNothing, false},
		"no devices":           {ResourceClaim("x", Exactly("r", "gpu", 9)), messageStill, false},
		"idle":                 {gone(claim()), messageDeallocated, true},
		"reserved for the pod": {ReservedFor(gone(claim()), "p"), messageDeallocated, true},
		"reserved for another": {ReservedFor(gone(claim()), "q"), messageStill, false},
	} {
		d := attempt(plugin(nil), Pod("p", "", Claiming("x")), cluster(c.claim))
		if d.PostFilterResult == nil || d.PostFilterResult.Message != c.want ||
			(d.PostFilterResult.Writes != nil) != c.writes {
			t.Errorf("%s: %+v, want %q", name, d.PostFilterResult, c.want)
		}
	}
}
