package volumebinding

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/queue"
	. "quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

const (
	wait = storagev1.VolumeBindingWaitForFirstConsumer
	now  = storagev1.VolumeBindingImmediate
)

// cluster is two zones with a node each, classes of each kind, and what a case adds.
func cluster(more ...metav1.Object) *snapshot.Snapshot {
	return Snapshot(append([]metav1.Object{
		Node("a", "zone=a"), Node("b", "zone=b"),
		Class("wait", "", wait), Class("immediate", "", now), Class("csi", "csi.example.com", wait),
	}, more...)...)
}

func capacity(class, zone, size string) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "driver", Name: class + zone}, StorageClassName: class,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": zone}},
		Capacity:     ptr.To(resource.MustParse(size)),
	}
}

func TestFilter(t *testing.T) {
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"},
		Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}}
	allowed := Class("csi", "csi.example.com", wait)
	allowed.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
		{Key: "zone", Values: []string{"b"}}}}}
	both := func(why string) map[string]string { return map[string]string{"a": why, "b": why} }
	on := func(node, why string) map[string]string { return map[string]string{node: why} }
	for name, c := range map[string]struct {
		objects []metav1.Object
		pod     func(*v1.Pod)
		want    map[string]string
	}{
		"no claims": {},
		"missing":   {pod: Using("x"), want: both(`!persistentvolumeclaim "x" not found`)},
		"missing, of a template": {
			pod: func(p *v1.Pod) {
				p.Spec.Volumes = []v1.Volume{{Name: "x", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
			},
			want: both(`!waiting for ephemeral volume controller to create the persistentvolumeclaim "p-x"`),
		},
		"lost": {
			objects: []metav1.Object{Claim("x", "wait", "1Gi", func(c *v1.PersistentVolumeClaim) {
				c.Spec.VolumeName, c.Status.Phase = "gone", v1.ClaimLost
			})},
			pod: Using("x"), want: both(`!persistentvolumeclaim "x" bound to non-existent persistentvolume "gone"`),
		},
		"deleted": {
			objects: []metav1.Object{Claim("x", "wait", "1Gi", func(c *v1.PersistentVolumeClaim) {
				c.DeletionTimestamp = &metav1.Time{}
			})},
			pod: Using("x"), want: both(`!persistentvolumeclaim "x" is being deleted`),
		},
		"immediate": {
			objects: []metav1.Object{Claim("x", "immediate", "1Gi", nil), Claim("y", "wait", "1Gi", nil)},
			pod:     Using("y", "x"), want: both("!" + reasonImmediate),
		},
		"bound in a zone": {
			objects: []metav1.Object{Claim("x", "wait", "1Gi", Bound("pv")), Volume("pv", "wait", "1Gi", "zone", "b")},
			pod:     Using("x"), want: on("a", "!"+reasonNodeConflict),
		},
		"bound to nothing": {
			objects: []metav1.Object{Claim("x", "wait", "1Gi", Bound("pv"))},
			pod:     Using("x"), want: both("!" + reasonNoVolume),
		},
		"no volume, no provisioner": {
			objects: []metav1.Object{Claim("x", "wait", "1Gi", nil), Volume("small", "wait", "500Mi", "")},
			pod:     Using("x"), want: both("!" + reasonBindConflict),
		},
		"volume in a zone": {
			objects: []metav1.Object{Claim("x", "wait", "1Gi", nil), Volume("pv", "wait", "2Gi", "zone", "a")},
			pod:     Using("x"), want: on("b", "!"+reasonBindConflict),
		},
		"one volume for two claims": {
			objects: []metav1.Object{Claim("x", "wait", "1Gi", nil), Claim("y", "wait", "1Gi", nil),
				Volume("pv", "wait", "2Gi", "")},
			pod: Using("x", "y"), want: both("!" + reasonBindConflict),
		},
		"the small claim leaves the large volume": {
			objects: []metav1.Object{Claim("x", "wait", "5Gi", nil), Claim("y", "wait", "1Gi", nil),
				Volume("large", "wait", "5Gi", ""), Volume("small", "wait", "2Gi", "")},
			pod: Using("x", "y"),
		},
		"provisioned": {objects: []metav1.Object{Claim("x", "csi", "1Gi", nil)}, pod: Using("x")},
		"provisioned for another node": {
			objects: []metav1.Object{Claim("x", "csi", "1Gi", func(c *v1.PersistentVolumeClaim) {
				c.Annotations[volume.AnnSelectedNode] = "a"
			})},
			pod: Using("x"), want: on("b", "!"+reasonBindConflict),
		},
		"topology": {
			objects: []metav1.Object{allowed, Claim("x", "csi", "1Gi", nil)},
			pod:     Using("x"), want: on("a", "!"+reasonBindConflict),
		},
		"capacity": {
			objects: []metav1.Object{driver, capacity("csi", "a", "1Gi"), capacity("csi", "b", "500Mi"),
				Claim("x", "csi", "1Gi", nil)},
			pod: Using("x"), want: on("b", "!"+reasonNoSpace),
		},
	} {
		if c.want == nil {
			c.want = map[string]string{}
		}
		got := Check(&Plugin{}, Pod("p", "", c.pod), cluster(c.objects...))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// placed is a placement of a pod as the cycle makes it.
func placed(t *testing.T, s *snapshot.Snapshot, pod *v1.Pod, node string) *commit.Placement {
	t.Helper()
	p := snapshot.NewPod(pod)
	test, refusal := (&Plugin{}).Filter(p, s)
	if refusal != nil {
		t.Fatal(refusal.Reasons)
	}
	out := &commit.Placement{Pod: p, Node: node, Kept: map[string]any{},
		Snapshot: func(do func(*snapshot.Snapshot)) { do(s) }}
	out.Kept[Name] = test.(interface{ Keep(*snapshot.Node) any }).Keep(s.Node(node))
	return out
}

// TestReserve: what one pod reserves, another one doesn't get, until it is given back.
func TestReserve(t *testing.T) {
	s := cluster(Claim("x", "wait", "1Gi", nil), Claim("y", "wait", "1Gi", nil), Claim("z", "csi", "1Gi", nil),
		Volume("pv", "wait", "1Gi", ""))
	f := &Plugin{}
	first := placed(t, s, Pod("p", "", Using("x", "z")), "a")
	if status := f.Reserve(t.Context(), first); status != nil {
		t.Fatal(status.Message())
	}
	if ref := s.Volume("pv").Spec.ClaimRef; ref == nil || ref.Name != "x" {
		t.Errorf("the volume is claimed by %v", ref)
	}
	name := types.NamespacedName{Namespace: "default", Name: "z"}
	if node := s.Claim(name).Annotations[volume.AnnSelectedNode]; node != "a" {
		t.Errorf("the claim selects node %q", node)
	}
	want := map[string]string{"a": "!" + reasonBindConflict, "b": "!" + reasonBindConflict}
	if diff := cmp.Diff(want, Check(f, Pod("q", "", Using("y")), s)); diff != "" {
		t.Error(diff)
	}
	f.Unreserve(t.Context(), first)
	if got := Check(f, Pod("q", "", Using("y")), s); !maps.Equal(got, map[string]string{}) {
		t.Errorf("after Unreserve: %v", got)
	}
	if _, ok := s.Claim(name).Annotations[volume.AnnSelectedNode]; ok {
		t.Error("the claim still selects a node")
	}
}

// TestReserveOutdated: a decision about an object that has changed is not carried out.
func TestReserveOutdated(t *testing.T) {
	s := cluster(Claim("x", "wait", "1Gi", nil), Volume("pv", "wait", "1Gi", ""))
	p := placed(t, s, Pod("p", "", Using("x")), "a")
	changed := Volume("pv", "wait", "1Gi", "")
	changed.ResourceVersion = "2"
	s.SetVolume(changed)
	if status := (&Plugin{}).Reserve(t.Context(), p); status == nil || status.Err == nil {
		t.Errorf("status %+v", status)
	}
}

func TestHints(t *testing.T) {
	pod := snapshot.NewPod(Pod("p", "", Using("x")))
	hints := queue.Hints{Name: (&Plugin{}).Hints()}
	grown := capacity("csi", "a", "2Gi")
	for name, c := range map[string]struct {
		event queue.Event
		want  bool
	}{
		"its claim":     {queue.Event{Kind: queue.ClaimUpdated, New: Claim("x", "wait", "1Gi", nil)}, true},
		"another claim": {queue.Event{Kind: queue.ClaimUpdated, New: Claim("y", "wait", "1Gi", nil)}, false},
		"a volume":      {queue.Event{Kind: queue.VolumeAdded, New: Volume("pv", "wait", "1Gi", "")}, true},
		"a class":       {queue.Event{Kind: queue.StorageClassAdded, New: Class("c", "", wait)}, true},
		"the same class": {queue.Event{Kind: queue.StorageClassUpdated, Old: Class("c", "", wait), New: Class("c", "", wait)},
			false},
		"more capacity": {queue.Event{Kind: queue.CapacityUpdated, Old: capacity("csi", "a", "1Gi"), New: grown}, true},
		"less capacity": {queue.Event{Kind: queue.CapacityUpdated, Old: grown, New: capacity("csi", "a", "1Gi")}, false},
		"a pod":         {queue.Event{Kind: queue.PodAdded}, false},
	} {
		if got := hints.Helps(pod, []string{Name}, c.event); got != c.want {
			t.Errorf("%s helps: %v", name, got)
		}
	}
}
