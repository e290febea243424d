package volumerestrictions

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	. "quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func once(c *v1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
}

func disk(readOnly bool) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{
			GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d", ReadOnly: readOnly}}}}
	}
}

func TestFilter(t *testing.T) {
	const used = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by " +
		"another pod"
	for name, c := range map[string]struct {
		objects []metav1.Object
		pod     func(*v1.Pod)
		want    map[string]string
	}{
		"no volumes": {},
		"missing": {pod: Using("x"), want: map[string]string{"a": `!persistentvolumeclaim "x" not found`,
			"b": `!persistentvolumeclaim "x" not found`}},
		"free": {objects: []metav1.Object{Claim("x", "c", "1Gi", once)}, pod: Using("x")},
		"in use": {
			objects: []metav1.Object{Claim("x", "c", "1Gi", once), Pod("other", "node=a", Using("x"))},
			pod:     Using("x"), want: map[string]string{"a": used, "b": used},
		},
		"shared": {
			objects: []metav1.Object{Claim("x", "c", "1Gi", nil), Pod("other", "node=a", Using("x"))}, pod: Using("x"),
		},
		"disk": {
			objects: []metav1.Object{Pod("other", "node=a", disk(true))},
			pod:     disk(false), want: map[string]string{"a": "node(s) had no available disk"},
		},
		"disk that is read": {objects: []metav1.Object{Pod("other", "node=a", disk(true))}, pod: disk(true)},
	} {
		s := Snapshot(append([]metav1.Object{Node("a", ""), Node("b", "")}, c.objects...)...)
		if got := Check(Plugin{}, Pod("p", "", c.pod), s); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestPreempted: a pod that is taken away, wherever it is, frees its claim.
func TestPreempted(t *testing.T) {
	other := Pod("other", "node=a", Using("x"))
	s := Snapshot(Node("a", ""), Claim("x", "c", "1Gi", once), other)
	test, _ := Plugin{}.Filter(snapshot.NewPod(Pod("p", "", Using("x"))), s)
	if test.Check(s.Node("a")) == nil {
		t.Fatal("the claim is in use")
	}
	test.(cycle.PreFilterExtensions).Follow(snapshot.NewPod(other), s.Node("a"), -1)
	if r := test.Check(s.Node("a")); r != nil {
		t.Errorf("refused: %v", r.Reasons)
	}
}
