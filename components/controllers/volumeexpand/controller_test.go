package volumeexpand

import (
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func claim(name, requested, has string) *v1.PersistentVolumeClaim {
	size := func(s string) v1.ResourceList { return v1.ResourceList{v1.ResourceStorage: resource.MustParse(s)} }
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PersistentVolumeClaimSpec{VolumeName: "v-" + name,
			Resources: v1.VolumeResourceRequirements{Requests: size(requested)}},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: size(has)},
	}
}

func volumeOf(c *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.Spec.VolumeName},
		Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: c.Name, UID: c.UID}}}
}

func TestEvent(t *testing.T) {
	grown, other := claim("grown", "1Gi", "1Gi"), claim("other", "1Gi", "1Gi")
	client := runnertest.NewClient(grown, volumeOf(grown), other, volumeOf(other))
	events := runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return New(env) })
	grown = claim("grown", "2Gi", "1Gi")
	if _, err := client.CoreV1().PersistentVolumeClaims("ns").Update(t.Context(), grown,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Saw(t, events, "Normal ExternalExpanding waiting for an external controller to expand this PVC")
	if len(events.Events) != 0 {
		t.Errorf("another event: %s", <-events.Events)
	}
}

func TestGrows(t *testing.T) {
	pending := claim("c", "2Gi", "1Gi")
	pending.Status.Phase = v1.ClaimPending
	for name, c := range map[string]struct {
		claim *v1.PersistentVolumeClaim
		want  bool
	}{
		"more": {claim("c", "2Gi", "1Gi"), true}, "as much": {claim("c", "1Gi", "1Gi"), false},
		"less": {claim("c", "1Gi", "2Gi"), false}, "not bound": {pending, false},
	} {
		if got := grows(c.claim); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
