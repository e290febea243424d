package nodevolumelimits

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/queue"
	. "quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

const driver = "csi.example.com"

func limited(count int32) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: driver,
			Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(count)}}}}}
}

func csiVolume(name string) *v1.PersistentVolume {
	pv := Volume(name, "c", "1Gi", "")
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle-" + name}
	return pv
}

func TestFilter(t *testing.T) {
	full := map[string]string{"a": "node(s) exceed max volume count"}
	attached := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: "a", Attacher: driver,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("v3")}}}
	for name, c := range map[string]struct {
		limit   int32
		objects []metav1.Object
		claims  []string
		want    map[string]string
	}{
		"none":                 {limit: 0},
		"room":                 {limit: 2, claims: []string{"x"}},
		"full":                 {limit: 1, claims: []string{"x"}, want: full},
		"the same volume":      {limit: 1, claims: []string{"used"}},
		"two more":             {limit: 2, claims: []string{"x", "unbound"}, want: full},
		"provisioned later":    {limit: 1, claims: []string{"unbound"}, want: full},
		"attached by no pod":   {limit: 2, claims: []string{"x"}, objects: []metav1.Object{attached}, want: full},
		"attached as its own":  {limit: 2, claims: []string{"third"}, objects: []metav1.Object{attached}},
		"no limit on the node": {limit: -1, claims: []string{"x"}},
	} {
		objects := append([]metav1.Object{
			Node("a", ""), csiVolume("v1"), csiVolume("v2"), csiVolume("v3"),
			Class("c", driver, storagev1.VolumeBindingWaitForFirstConsumer),
			Claim("used", "c", "1Gi", Bound("v1")), Claim("x", "c", "1Gi", Bound("v2")),
			Claim("third", "c", "1Gi", Bound("v3")), Claim("unbound", "c", "1Gi", nil),
			Pod("other", "node=a", Using("used")),
		}, c.objects...)
		if c.limit >= 0 {
			objects = append(objects, limited(c.limit))
		}
		if got := Check(Plugin{}, Pod("p", "", Using(c.claims...)), Snapshot(objects...)); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestHints(t *testing.T) {
	hints := queue.Hints{Name: Plugin{}.Hints()}
	pod := snapshot.NewPod(Pod("p", "", Using("x")))
	for name, c := range map[string]struct {
		event queue.Event
		want  bool
	}{
		"limits":              {queue.Event{Kind: queue.CSINodeAdded, New: limited(1)}, true},
		"a higher limit":      {queue.Event{Kind: queue.CSINodeUpdated, Old: limited(1), New: limited(2)}, true},
		"a lower limit":       {queue.Event{Kind: queue.CSINodeUpdated, Old: limited(2), New: limited(1)}, false},
		"a pod without":       {queue.Event{Kind: queue.PodRemoved, OldPod: snapshot.NewPod(Pod("o", "", nil))}, false},
		"a pod with a volume": {queue.Event{Kind: queue.PodRemoved, OldPod: snapshot.NewPod(Pod("o", "", Using("y")))}, true},
		"a volume detached":   {queue.Event{Kind: queue.AttachmentRemoved}, true},
	} {
		if got := hints.Helps(pod, []string{Name}, c.event); got != c.want {
			t.Errorf("%s helps: %v", name, got)
		}
	}
}
