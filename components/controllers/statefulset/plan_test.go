package statefulset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// world plays API server, scheduler and kubelets for one set.
type world struct {
	t      *testing.T
	o      observed
	made   int
	random *rand.Rand
}

func newWorld(t *testing.T, seed uint64, replicas int32, policy apps.PodManagementPolicyType) *world {
	return &world{t: t, random: rand.New(rand.NewPCG(seed, 4)), o: observed{maxUnavailable: true, now: time.Unix(10000,
		0), current: "v1", update: "v1", set: &apps.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "db"},
		Spec: apps.StatefulSetSpec{Replicas: &replicas, PodManagementPolicy: policy, ServiceName: "db",
			Selector: &metav1.LabelSelector{},
			UpdateStrategy: apps.StatefulSetUpdateStrategy{Type: apps.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &apps.RollingUpdateStatefulSetStrategy{}}},
	}}}
}

func (w *world) reconcile() bool {
	p := decide(w.o)
	w.o.set.Status = p.status
	w.o.current = p.status.CurrentRevision
	for _, c := range p.create {
		pod := newPod(w.o.set, &v1.PodTemplateSpec{}, c.revision, c.ordinal)
		for _, other := range w.o.pods {
			if other.Name == pod.Name {
				w.t.Fatalf("%s made twice", pod.Name)
			}
		}
		w.made++
		pod.UID = types.UID(fmt.Sprint("p", w.made))
		w.o.pods = append(w.o.pods, pod)
	}
	for _, pod := range p.delete {
		pod.DeletionTimestamp = &metav1.Time{Time: w.o.now}
	}
	return len(p.create)+len(p.delete) > 0
}

func (w *world) live() bool {
	w.o.now = w.o.now.Add(time.Second)
	for _, i := range w.random.Perm(len(w.o.pods)) {
		pod := w.o.pods[i]
		switch {
		case pod.DeletionTimestamp != nil:
			w.o.pods = slices.Delete(w.o.pods, i, i+1)
			return true
		case pod.Status.Phase == "":
			pod.Status = v1.PodStatus{Phase: v1.PodRunning,
				Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(w.o.now)}}}
			return true
		}
	}
	return false
}

func (w *world) settle(check func()) {
	w.t.Helper()
	for range 3000 {
		busy := w.random.IntN(2) == 0 && w.live()
		busy = w.reconcile() || busy
		check()
		if !busy && !w.live() && !w.reconcile() {
			return
		}
	}
	w.t.Fatal("never settles")
}

func (w *world) ordinals(keep func(*v1.Pod) bool) []int {
	var found []int
	for _, pod := range w.o.pods {
		if keep(pod) {
			found = append(found, ordinal(w.o.set, pod))
		}
	}
	slices.Sort(found)
	return found
}

func all(*v1.Pod) bool { return true }

func of(revision string) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return p.Labels[apps.StatefulSetRevisionLabel] == revision }
}

// oneMoves fails if more than one pod at a time is on its way.
func (w *world) oneMoves() {
	moving := w.ordinals(func(p *v1.Pod) bool { return p.DeletionTimestamp != nil || p.Status.Phase == "" })
	if len(moving) > 1 {
		w.t.Fatalf("pods %v move at once", moving)
	}
}

func TestInOrder(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 4, apps.OrderedReadyPodManagement)
		w.settle(w.oneMoves)
		if got := fmt.Sprint(w.ordinals(all)); got != "[0 1 2 3]" {
			t.Fatalf("pods %s", got)
		}
		w.o.update = "v2"
		w.settle(func() {
			w.oneMoves()
			old, next := w.ordinals(of("v1")), w.ordinals(of("v2"))
			if len(old) > 0 && len(next) > 0 && old[len(old)-1] > next[0] {
				t.Fatalf("updated %v while %v are old", next, old)
			}
		})
		if s := w.o.set.Status; len(w.ordinals(of("v2"))) != 4 || s.CurrentRevision != "v2" || s.CurrentReplicas != 4 ||
			s.UpdatedReplicas != 4 || ptr.Deref(s.CollisionCount, -1) != 0 {
			t.Fatalf("status %+v", s)
		}
		w.o.set.Spec.Replicas = ptr.To[int32](1)
		w.settle(w.oneMoves)
		if got := fmt.Sprint(w.ordinals(all)); got != "[0]" {
			t.Fatalf("after scaling down: %s", got)
		}
	}
}

func TestBrokenPodsAreNotScaledDown(t *testing.T) {
	for name, c := range map[string]struct {
		broken []int // ordinals
		want   string
	}{
		"none":             {nil, "[2]"},
		"all":              {[]int{0, 1, 2}, "[]"},
		"the one to go":    {[]int{2}, "[2]"},
		"one below it too": {[]int{1, 2}, "[]"},
		"one below it":     {[]int{1}, "[2]"},
		"one that stays":   {[]int{0}, "[]"},
	} {
		w := newWorld(t, 1, 3, apps.OrderedReadyPodManagement)
		w.settle(func() {})
		w.o.set.Spec.Replicas = ptr.To[int32](1)
		for _, pod := range w.o.pods {
			if slices.Contains(c.broken, ordinal(w.o.set, pod)) {
				pod.Status.Conditions = nil
			}
		}
		w.reconcile()
		if got := fmt.Sprint(w.ordinals(func(p *v1.Pod) bool { return p.DeletionTimestamp != nil })); got != c.want {
			t.Errorf("%s is broken: deletes %s, not %s", name, got, c.want)
		}
	}
}

func TestPartition(t *testing.T) {
	w := newWorld(t, 1, 4, apps.OrderedReadyPodManagement)
	w.settle(func() {})
	w.o.update = "v2"
	w.o.set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](2)
	w.settle(func() {})
	if got := fmt.Sprint(w.ordinals(of("v2"))); got != "[2 3]" {
		t.Fatalf("updated %s", got)
	}
	for _, pod := range w.o.pods { // one below the partition comes back as it was
		if pod.Name == "db-0" {
			pod.DeletionTimestamp = &metav1.Time{}
		}
	}
	w.settle(func() {})
	if got := fmt.Sprint(w.ordinals(of("v1"))); got != "[0 1]" {
		t.Fatalf("old %s", got)
	}
	w.o.set.Spec.UpdateStrategy.RollingUpdate.Partition = nil
	w.settle(func() {})
	if got := fmt.Sprint(w.ordinals(of("v2"))); got != "[0 1 2 3]" {
		t.Fatalf("updated %s", got)
	}
}

func TestParallelAndOnDelete(t *testing.T) {
	w := newWorld(t, 1, 3, apps.ParallelPodManagement)
	w.o.set.Spec.Ordinals = &apps.StatefulSetOrdinals{Start: 5}
	w.o.set.Spec.UpdateStrategy = apps.StatefulSetUpdateStrategy{Type: apps.OnDeleteStatefulSetStrategyType}
	w.reconcile()
	if got := fmt.Sprint(w.ordinals(all)); got != "[5 6 7]" {
		t.Fatalf("pods %s at once", got)
	}
	w.settle(func() {})
	w.o.update = "v2"
	w.settle(func() {})
	if n := len(w.ordinals(of("v2"))); n != 0 {
		t.Fatalf("%d pods updated by themselves", n)
	}
	w.o.pods[0].DeletionTimestamp = &metav1.Time{}
	w.settle(func() {})
	if n := len(w.ordinals(of("v2"))); n != 1 {
		t.Fatalf("%d pods updated after one was deleted", n)
	}
}

func TestIdentity(t *testing.T) {
	set := newWorld(t, 1, 1, "").o.set
	set.Spec.VolumeClaimTemplates = []v1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	set.Spec.Selector.MatchLabels = map[string]string{"app": "db"}
	pod := newPod(set, &v1.PodTemplateSpec{Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "data"}, {Name: "other"}}}},
		"v1", 3)
	if pod.Name != "db-3" || pod.GenerateName != "db-" || pod.Spec.Hostname != "db-3" || pod.Spec.Subdomain != "db" ||
		pod.Labels[apps.PodIndexLabel] != "3" || pod.Labels[apps.StatefulSetPodNameLabel] != "db-3" {
		t.Errorf("%+v", pod)
	}
	if len(pod.Spec.Volumes) != 2 || pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName != "data-db-3" {
		t.Errorf("volumes %+v", pod.Spec.Volumes)
	}
	if claim := claims(set, 3)[0]; claim.Name != "data-db-3" || claim.Labels["app"] != "db" {
		t.Errorf("claim %+v", claim)
	}
	for name, want := range map[string]int{"db-0": 0, "db-12": 12, "db-01": -1, "db-x": -1, "other-1": -1, "db": -1} {
		if got := ordinal(set, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &apps.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: apps.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	if refs, changed := retained(set, claims(set, 0)[0], "db-0", owners(set, nil)); !changed || refs[0].UID != set.UID {
		t.Errorf("references %+v", refs)
	}
}
