package statefulset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// at makes the pod of an ordinal from words: v1 or v2 (its revision), ready, going, failed, succeeded, young.
func at(w *world, text string) *v1.Pod {
	number, words, _ := strings.Cut(text, ":")
	var n int
	_, _ = fmt.Sscan(number, &n)
	p := newPod(w.o.set, &v1.PodTemplateSpec{}, "v1", n)
	p.UID, p.Status.Phase = types.UID(p.Name), v1.PodPending
	since := w.o.now.Add(-time.Minute)
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "v1", "v2", "v0":
			p.Labels[apps.StatefulSetRevisionLabel] = word
		case "young":
			since = w.o.now.Add(-3 * time.Second)
		case "going":
			p.DeletionTimestamp = &metav1.Time{Time: w.o.now}
		case "failed":
			p.Status.Phase = v1.PodFailed
		case "succeeded":
			p.Status.Phase = v1.PodSucceeded
		case "ready":
			p.Status.Phase = v1.PodRunning
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		}
	}
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].LastTransitionTime = metav1.NewTime(since)
	}
	return p
}

func show(p plan) string {
	create, gone := []string{}, []string{}
	for _, c := range p.create {
		create = append(create, fmt.Sprint(c.ordinal, ":", c.revision))
	}
	for _, pod := range p.delete {
		gone = append(gone, pod.Name)
	}
	s := p.status
	return fmt.Sprintf("+%v -%v replicas=%d ready=%d avail=%d current=%d updated=%d", create, gone, s.Replicas,
		s.ReadyReplicas,
		s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas)
}

func TestPlans(t *testing.T) {
	ordered, parallel := apps.OrderedReadyPodManagement, apps.ParallelPodManagement
	maxUnavailable := func(n int) func(*apps.StatefulSet) {
		return func(s *apps.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(int32(n)))
		}
	}
	onDelete := func(s *apps.StatefulSet) {
		s.Spec.UpdateStrategy = apps.StatefulSetUpdateStrategy{Type: apps.OnDeleteStatefulSetStrategyType}
	}
	minReady := func(s *apps.StatefulSet) { s.Spec.MinReadySeconds = 10 }
	deleted := func(s *apps.StatefulSet) { s.DeletionTimestamp = &metav1.Time{} }
	for name, c := range map[string]struct {
		replicas int32
		policy   apps.PodManagementPolicyType
		update   string // v2 unless said
		change   func(*apps.StatefulSet)
		pods     []string
		want     string
	}{
		"from nothing": {3, ordered, "v1", nil, nil, "+[0:v1] -[] replicas=0 ready=0 avail=0 current=0 updated=0"},
		"all at once":  {3, parallel, "v1", nil, nil, "+[0:v1 1:v1 2:v1] -[] replicas=0 ready=0 avail=0 current=0 updated=0"},
		"the next once the first serves": {3, ordered, "v1", nil, []string{"0: v1 ready"},
			"+[1:v1] -[] replicas=1 ready=1 avail=1 current=1 updated=1"},
		"not before": {3, ordered, "v1", nil, []string{"0: v1"}, "+[] -[] replicas=1 ready=0 avail=0 current=1 updated=1"},
		"not before it is available": {3, ordered, "v1", minReady, []string{"0: v1 ready young"},
			"+[] -[] replicas=1 ready=1 avail=0 current=1 updated=1"},
		"a gap is filled first": {3, ordered, "v1", nil, []string{"0: v1 ready", "2: v1 ready"},
			"+[1:v1] -[] replicas=2 ready=2 avail=2 current=2 updated=2"},
		"a failed one is replaced": {2, ordered, "v1", nil, []string{"0: v1 failed", "1: v1 ready"},
			"+[] -[db-0] replicas=2 ready=1 avail=1 current=2 updated=2"},
		"a succeeded one too": {2, ordered, "v1", nil, []string{"0: v1 ready", "1: v1 succeeded"},
			"+[] -[db-1] replicas=2 ready=1 avail=1 current=2 updated=2"},
		"one that goes holds up the others": {3, ordered, "v1", nil, []string{"0: v1 ready going", "1: v1 ready"},
			"+[] -[] replicas=2 ready=2 avail=1 current=1 updated=1"},
		"but not in parallel": {3, parallel, "v1", nil, []string{"0: v1 ready going", "1: v1 ready"},
			"+[2:v1] -[] replicas=2 ready=2 avail=1 current=1 updated=1"},
		"scaled down: the last": {1, ordered, "v1", nil, []string{"0: v1 ready", "1: v1 ready", "2: v1 ready"},
			"+[] -[db-2] replicas=3 ready=3 avail=3 current=3 updated=3"},
		"scaled down: one after the other": {1, ordered, "v1", nil, []string{"0: v1 ready", "1: v1 ready",
			"2: v1 ready going"},
			"+[] -[] replicas=3 ready=3 avail=2 current=2 updated=2"},
		"scaled down in parallel": {1, parallel, "v1", nil, []string{"0: v1 ready", "1: v1 ready", "2: v1"},
			"+[] -[db-2 db-1] replicas=3 ready=2 avail=2 current=3 updated=3"},
		"to zero": {0, ordered, "v1", nil, []string{"0: v1 ready"},
			"+[] -[db-0] replicas=1 ready=1 avail=1 current=1 updated=1"},
		"an update begins at the end": {3, ordered, "v2", nil, []string{"0: v1 ready", "1: v1 ready", "2: v1 ready"},
			"+[] -[db-2] replicas=3 ready=3 avail=3 current=3 updated=0"},
		"goes on once that serves": {3, ordered, "v2", nil, []string{"0: v1 ready", "1: v1 ready", "2: v2 ready"},
			"+[] -[db-1] replicas=3 ready=3 avail=3 current=2 updated=1"},
		"waits until it does": {3, ordered, "v2", nil, []string{"0: v1 ready", "1: v1 ready", "2: v2"},
			"+[] -[] replicas=3 ready=2 avail=2 current=2 updated=1"},
		"makes it again, updated": {3, ordered, "v2", nil, []string{"0: v1 ready", "1: v1 ready"},
			"+[2:v2] -[] replicas=2 ready=2 avail=2 current=2 updated=0"},
		"two at a time": {4, parallel, "v2", maxUnavailable(2), []string{"0: v1 ready", "1: v1 ready", "2: v1 ready",
			"3: v1 ready"},
			"+[] -[db-3 db-2] replicas=4 ready=4 avail=4 current=4 updated=0"},
		"one of two is out already": {4, parallel, "v2", maxUnavailable(2), []string{"0: v1 ready", "1: v1 ready",
			"2: v1 ready", "3: v2"},
			"+[] -[db-2] replicas=4 ready=3 avail=3 current=3 updated=1"},
		"done": {2, ordered, "v2", nil, []string{"0: v2 ready", "1: v2 ready"},
			"+[] -[] replicas=2 ready=2 avail=2 current=2 updated=2"},
		"on delete nothing rolls": {2, ordered, "v2", onDelete, []string{"0: v1 ready", "1: v1 ready"},
			"+[] -[] replicas=2 ready=2 avail=2 current=2 updated=0"},
		"on delete comes back updated": {2, ordered, "v2", onDelete, []string{"0: v1 ready"},
			"+[1:v2] -[] replicas=1 ready=1 avail=1 current=1 updated=0"},
		"a set that is deleted does nothing": {3, ordered, "v1", deleted, []string{"0: v1 failed"},
			"+[] -[] replicas=1 ready=0 avail=0 current=1 updated=1"},
	} {
		w := newWorld(t, 1, c.replicas, c.policy)
		w.o.update = c.update
		if c.change != nil {
			c.change(w.o.set)
		}
		for _, text := range c.pods {
			w.o.pods = append(w.o.pods, at(w, text))
		}
		if got := show(decide(w.o)); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
	}
}

// TestWaitsForMinReadySeconds asks to be called again when the first of the ready pods gets available.
func TestWaitsForMinReadySeconds(t *testing.T) {
	w := newWorld(t, 1, 2, apps.ParallelPodManagement)
	w.o.set.Spec.MinReadySeconds = 10
	w.o.pods = []*v1.Pod{at(w, "0: v1 ready young"), at(w, "1: v1 ready")}
	if p := decide(w.o); p.again != 7*time.Second || p.status.AvailableReplicas != 1 {
		t.Errorf("again after %v, %d available", p.again, p.status.AvailableReplicas)
	}
}

// TestRevisionOfStatus moves to the new revision once all pods have it and are ready, not before.
func TestRevisionOfStatus(t *testing.T) {
	for name, c := range map[string]struct {
		pods []string
		want string
	}{
		"one is old":       {[]string{"0: v1 ready", "1: v2 ready"}, "v1"},
		"one isn't ready":  {[]string{"0: v2 ready", "1: v2"}, "v1"},
		"one is missing":   {[]string{"0: v2 ready"}, "v1"},
		"one is going":     {[]string{"0: v2 ready going", "1: v2 ready"}, "v1"},
		"all are new":      {[]string{"0: v2 ready", "1: v2 ready"}, "v2"},
		"one is too many":  {[]string{"0: v2 ready", "1: v2 ready", "2: v1 ready"}, "v1"},
		"of yet another":   {[]string{"0: v0 ready", "1: v2 ready"}, "v1"},
		"nothing is there": {nil, "v1"},
	} {
		w := newWorld(t, 1, 2, apps.OrderedReadyPodManagement)
		w.o.update, w.o.set.Generation = "v2", 7
		for _, text := range c.pods {
			w.o.pods = append(w.o.pods, at(w, text))
		}
		s := decide(w.o).status
		if s.CurrentRevision != c.want || s.UpdateRevision != "v2" || s.ObservedGeneration != 7 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestMaxUnavailable(t *testing.T) {
	for _, c := range []struct {
		value    string
		replicas int32
		want     int
	}{{"", 10, 1}, {"3", 10, 3}, {"25%", 10, 2}, {"5%", 10, 1}, {"0%", 10, 1}, {"100%", 4, 4}, {"50%", 0, 1}, {"x", 10,
		1}} {
		w := newWorld(t, 1, c.replicas, apps.ParallelPodManagement)
		if c.value != "" {
			w.o.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.Parse(c.value))
		}
		if got := (&step{observed: w.o}).unavailableLimit(); got != c.want {
			t.Errorf("%q of %d: %d, want %d", c.value, c.replicas, got, c.want)
		}
	}
}

// TestMaxUnavailableHolds: in no state of a parallel update are more pods out of service than allowed.
func TestMaxUnavailableHolds(t *testing.T) {
	for seed := range uint64(20) {
		for _, allowed := range []int{1, 2, 3} {
			w := newWorld(t, seed, 6, apps.ParallelPodManagement)
			w.settle(func() {})
			w.o.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(int32(allowed)))
			w.o.update = "v2"
			w.settle(func() {
				serving := w.ordinals(func(p *v1.Pod) bool { return p.DeletionTimestamp == nil && p.Status.Phase == v1.PodRunning })
				if len(serving) < 6-allowed {
					t.Fatalf("seed %d: only %v serve, %d may be missing", seed, serving, allowed)
				}
			})
			if got := fmt.Sprint(w.ordinals(of("v2"))); got != "[0 1 2 3 4 5]" || w.o.set.Status.CurrentRevision != "v2" {
				t.Fatalf("updated %s, status %+v", got, w.o.set.Status)
			}
		}
	}
}

// TestChurn: an update in the midst of another, with scaling in between, makes each pod at most once of each
// revision, and
// one at a time.
func TestChurn(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 2, apps.OrderedReadyPodManagement)
		made := map[string]int{}
		seen := map[types.UID]bool{}
		check := func() {
			w.oneMoves()
			for _, p := range w.o.pods {
				if !seen[p.UID] {
					seen[p.UID] = true
					made[p.Name+" "+p.Labels[apps.StatefulSetRevisionLabel]]++
				}
			}
		}
		w.settle(check)
		for _, revision := range []string{"v2", "v3"} {
			w.o.update = revision
			for range w.random.IntN(6) {
				w.reconcile()
				check()
				w.live()
				check()
			}
		}
		w.settle(check)
		if made["db-0 v3"] != 1 || made["db-1 v3"] != 1 {
			t.Fatalf("seed %d: %v", seed, made)
		}
		for what, n := range made {
			if n > 1 {
				t.Fatalf("seed %d: %s was made %d times", seed, what, n)
			}
		}
	}
}

// TestRetained follows the references of a claim through every change of the retention policy.
func TestRetained(t *testing.T) {
	set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "set"}}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}
	foreign := metav1.OwnerReference{APIVersion: "x.dev/v1", Kind: "Backup", Name: "b", UID: "b", Controller: ptr.To(true)}
	ofSet, ofPod := *metav1.NewControllerRef(set, kind), metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "db-0",
		UID:        "p",
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}
	stale := ofPod
	stale.UID = "before"
	plain := ofSet
	plain.Controller = nil
	for name, c := range map[string]struct {
		have, wanted []metav1.OwnerReference
		want         string
		changed      bool
	}{
		"kept, and to be":            {nil, nil, "[]", false},
		"deleted with its set":       {nil, []metav1.OwnerReference{ofSet}, "[set]", true},
		"is so already":              {[]metav1.OwnerReference{ofSet}, []metav1.OwnerReference{ofSet}, "[set]", false},
		"not any more":               {[]metav1.OwnerReference{ofSet}, nil, "[]", true},
		"from the set to its pod":    {[]metav1.OwnerReference{ofSet}, []metav1.OwnerReference{ofPod}, "[p]", true},
		"back to the set":            {[]metav1.OwnerReference{ofPod}, []metav1.OwnerReference{ofSet}, "[set]", true},
		"of a pod before":            {[]metav1.OwnerReference{stale}, []metav1.OwnerReference{ofPod}, "[p]", true},
		"of a pod before, kept":      {[]metav1.OwnerReference{stale}, nil, "[]", true},
		"beside another owner":       {[]metav1.OwnerReference{other}, []metav1.OwnerReference{ofSet}, "[x set]", true},
		"which stays":                {[]metav1.OwnerReference{other, ofSet}, nil, "[x]", true},
		"controlled by another":      {[]metav1.OwnerReference{foreign}, []metav1.OwnerReference{ofSet}, "[b]", false},
		"an owner without control":   {[]metav1.OwnerReference{plain}, []metav1.OwnerReference{ofSet}, "[set]", true},
		"controlled by another, too": {[]metav1.OwnerReference{foreign, other}, nil, "[b x]", false},
	} {
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: slices.Clone(c.have)}}
		refs, changed := retained(set, claim, "db-0", c.wanted)
		uids := []types.UID{}
		for _, ref := range refs {
			uids = append(uids, ref.UID)
		}
		if fmt.Sprint(uids) != c.want || changed != c.changed {
			t.Errorf("%s: %v, changed %v; want %s, %v", name, uids, changed, c.want, c.changed)
		}
	}
}
