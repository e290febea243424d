package statefulset

import (
	"fmt"
	"testing"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
)

// Below the partition, which counts from the first ordinal, a pod comes back as it was; above it, updated.
func TestRevisionOfMissingPods(t *testing.T) {
	for _, test := range []struct {
		start, partition int32
		want             []string
	}{
		{0, 0, []string{"v2", "v2", "v2"}},
		{0, 2, []string{"v1", "v1", "v2"}},
		{5, 2, []string{"v1", "v1", "v2"}},
		{5, 0, []string{"v2", "v2", "v2"}},
	} {
		w := newWorld(t, 1, 3, apps.ParallelPodManagement)
		w.o.current, w.o.update = "v1", "v2"
		w.o.set.Spec.Ordinals = &apps.StatefulSetOrdinals{Start: test.start}
		w.o.set.Spec.UpdateStrategy.RollingUpdate.Partition = &test.partition
		w.o.set.Status.CurrentReplicas = 3
		for i, c := range decide(w.o).create {
			if c.ordinal != int(test.start)+i || c.revision != test.want[i] {
				t.Errorf("start %d, partition %d: creates %+v, want %v", test.start, test.partition, c, test.want)
			}
		}
	}
}

func TestOwnersOfClaims(t *testing.T) {
	set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "db"}}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-1", UID: "p"}}
	for _, test := range []struct {
		deleted, scaled  apps.PersistentVolumeClaimRetentionPolicyType
		stays, condemned string
	}{
		{"Retain", "Retain", "", ""},
		{"Delete", "Retain", "StatefulSet/db", "StatefulSet/db"},
		{"Retain", "Delete", "", "Pod/db-1"},
		{"Delete", "Delete", "StatefulSet/db", "Pod/db-1"},
	} {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &apps.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: test.deleted, WhenScaled: test.scaled,
		}
		for want, of := range map[string]*v1.Pod{"stays " + test.stays: nil, "condemned " + test.condemned: pod} {
			got := "stays "
			if of != nil {
				got = "condemned "
			}
			for _, ref := range owners(set, of) {
				if !ptr.Deref(ref.Controller, false) {
					t.Errorf("%+v does not control the claim", ref)
				}
				got += ref.Kind + "/" + ref.Name
			}
			if got != want {
				t.Errorf("%s, %s: %q, want %q", test.deleted, test.scaled, got, want)
			}
		}
	}
}

func TestForeignOwnersStay(t *testing.T) {
	set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "db"}}
	wanted := []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)}
	other := metav1.OwnerReference{Kind: "Backup", Name: "b", UID: "b"}
	for _, controls := range []bool{false, true} {
		other.Controller = &controls
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{other}}}
		refs, changed := retained(set, claim, "db-0", wanted)
		if changed == controls || refs[0].UID != "b" || (len(refs) == 2) == controls {
			t.Errorf("controls %v: %v, changed %v", controls, refs, changed)
		}
	}
}

func TestAdoptedPodsGetTheirIdentity(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-3", UID: "p",
		Labels: map[string]string{"mine": "yes"}}}
	c := &Controller{env: runner.Env{Client: fake.NewClientset(pod), Events: record.NewFakeRecorder(9)}}
	set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "db"}}
	if err := c.repair(t.Context(), set, []*v1.Pod{pod}); err != nil {
		t.Fatal(err)
	}
	got, err := c.env.Client.CoreV1().Pods("ns").Get(t.Context(), "db-3", metav1.GetOptions{})
	want := map[string]string{"mine": "yes", apps.StatefulSetPodNameLabel: "db-3", apps.PodIndexLabel: "3"}
	if err != nil || fmt.Sprint(got.Labels) != fmt.Sprint(want) {
		t.Errorf("labels %v, error %v", got.Labels, err)
	}
}

// A set whose name is taken tries again; a pod that it made itself is only not seen yet.
func TestTakenNames(t *testing.T) {
	set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "db"}}
	for name, refs := range map[string][]metav1.OwnerReference{
		"foreign": nil, "own": {*metav1.NewControllerRef(set, kind)},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-0", OwnerReferences: refs}}
		c := &Controller{env: runner.Env{Client: fake.NewClientset(pod), Events: record.NewFakeRecorder(9)}}
		if err := c.isOurs(t.Context(), set, "db-0"); (err == nil) != (name == "own") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
