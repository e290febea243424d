package replicaset

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/expectations"
	"quintet.dev/quintet/components/controllers/pods"
)

// lagging is a set whose controller sees its pods through an informer that is behind: stored is what the API server
// has,
// seen what the informer shows.
type lagging struct {
	random  *rand.Rand
	set     *apps.ReplicaSet
	stored  map[types.UID]*v1.Pod
	seen    map[types.UID]*v1.Pod
	pending *expectations.Tracker
	made    int
}

func newLagging(seed uint64, replicas int32) *lagging {
	return &lagging{random: rand.New(rand.NewPCG(seed, 11)), set: set(replicas), stored: map[types.UID]*v1.Pod{},
		seen: map[types.UID]*v1.Pod{}, pending: expectations.New(clocktesting.NewFakeClock(now))}
}

func (l *lagging) active() int {
	n := 0
	for _, p := range l.stored {
		if pods.Active(p) {
			n++
		}
	}
	return n
}

// reconcile decides on what is seen, and writes, with failures now and then.
func (l *lagging) reconcile() {
	var all []*v1.Pod
	for _, uid := range slices.Sorted(maps.Keys(l.seen)) {
		all = append(all, l.seen[uid])
	}
	p := decide(observed{set: l.set, pods: all, related: always(all),
		expectationsMet: l.pending.Satisfied("k"), now: now})
	l.pending.ExpectCreations("k", p.create)
	for range p.create {
		if l.random.IntN(5) == 0 {
			l.pending.CreationObserved("k")
			continue
		}
		l.made++
		fresh := pod(fmt.Sprintf("p%04d", l.made), in(v1.PodPending))
		l.stored[fresh.UID] = fresh
	}
	for _, doomed := range p.delete {
		l.pending.ExpectDeletions("k", doomed.UID)
		stored := l.stored[doomed.UID]
		if stored == nil || l.random.IntN(5) == 0 {
			l.pending.DeletionObserved("k", doomed.UID)
			continue
		}
		gone := stored.DeepCopy()
		going(gone)
		l.stored[doomed.UID] = gone
	}
}

// show delivers one event of the informer, as the controller handles it, and tells whether there was any.
func (l *lagging) show() bool {
	both := map[types.UID]*v1.Pod{}
	for uid, p := range l.seen {
		both[uid] = p
	}
	for uid, p := range l.stored {
		both[uid] = p
	}
	keys := slices.Sorted(maps.Keys(both))
	for _, i := range l.random.Perm(len(keys)) {
		uid := keys[i]
		stored, seen := l.stored[uid], l.seen[uid]
		switch {
		case stored == seen:
			continue
		case stored == nil:
			l.pending.DeletionObserved("k", uid)
			delete(l.seen, uid)
			return true
		case seen == nil:
			l.pending.CreationObserved("k")
		}
		if stored.DeletionTimestamp != nil {
			l.pending.DeletionObserved("k", uid)
		}
		l.seen[uid] = stored
		return true
	}
	return false
}

// live lets one pod change by itself: run, end, be evicted, or go after its deletion.
func (l *lagging) live() {
	keys := slices.Sorted(maps.Keys(l.stored))
	if len(keys) == 0 {
		return
	}
	uid := keys[l.random.IntN(len(keys))]
	if l.seen[uid] == nil {
		return // a watch leaves no event out: the pod is seen before it goes
	}
	next := l.stored[uid].DeepCopy()
	switch {
	case next.DeletionTimestamp != nil, !pods.Active(next):
		delete(l.stored, uid)
		return
	case next.Status.Phase == v1.PodPending:
		next.Status.Phase = v1.PodRunning
	case l.random.IntN(4) == 0:
		next.Status.Phase = v1.PodFailed
	case l.random.IntN(4) == 0:
		going(next)
	}
	l.stored[uid] = next
}

// TestNeverTooMany: in any order of writes, failures, pods' own ends and late events, a set makes no pod too many,
// never
// deletes below its size on what is current, and gets there in the end.
func TestNeverTooMany(t *testing.T) {
	for seed := range uint64(60) {
		l := newLagging(seed, int32(seed%7))
		most := int(*l.set.Spec.Replicas)
		for range 400 {
			before, current := l.active(), maps.Equal(l.stored, l.seen)
			switch l.random.IntN(6) {
			case 0:
				l.reconcile()
				if n := l.active(); n > max(most, before) {
					t.Fatalf("seed %d: from %d to %d pods, want at most %d", seed, before, n, most)
				} else if current && n < before && n < int(*l.set.Spec.Replicas) {
					t.Fatalf("seed %d: from %d down to %d pods, want %d", seed, before, n, *l.set.Spec.Replicas)
				}
			case 1:
				if l.random.IntN(10) == 0 {
					l.set.Spec.Replicas = ptr.To(l.random.Int32N(7))
					most = max(most, int(*l.set.Spec.Replicas))
				}
			case 2:
				l.live()
			default:
				l.show()
			}
			if n := l.active(); n <= int(*l.set.Spec.Replicas) && l.pending.Satisfied("k") && len(l.seen) == len(l.stored) {
				most = int(*l.set.Spec.Replicas)
			}
		}
		for range 100 {
			for l.show() {
			}
			l.reconcile()
		}
		for l.show() {
		}
		if n := l.active(); n != int(*l.set.Spec.Replicas) {
			t.Fatalf("seed %d: %d pods in the end, want %d", seed, n, *l.set.Spec.Replicas)
		}
	}
}

func TestRestartsOfSidecars(t *testing.T) {
	always := ptr.To(v1.ContainerRestartPolicyAlways)
	for name, c := range map[string]struct {
		containers []int32
		init       []int32
		sidecar    []bool
		want       int32
	}{
		"none":             {},
		"the highest":      {containers: []int32{1, 7, 3}, want: 7},
		"not of init":      {containers: []int32{1}, init: []int32{9}, sidecar: []bool{false}, want: 1},
		"of a sidecar":     {containers: []int32{1}, init: []int32{9, 4}, sidecar: []bool{false, true}, want: 4},
		"status is behind": {containers: []int32{1}, init: []int32{}, sidecar: []bool{true}, want: 1},
	} {
		p := &v1.Pod{}
		for _, n := range c.containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{RestartCount: n})
		}
		for _, n := range c.init {
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, v1.ContainerStatus{RestartCount: n})
		}
		for _, sidecar := range c.sidecar {
			container := v1.Container{}
			if sidecar {
				container.RestartPolicy = always
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, container)
		}
		if got := restarts(p); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestDeletionCost(t *testing.T) {
	for value, want := range map[string]int64{"": 0, "0": 0, "100": 100, "-2147483648": -2147483648, "2147483648": 0,
		"x": 0, "1.5": 0} {
		if got := deletionCost(pod("p", cost(value))); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
	if got := deletionCost(pod("p")); got != 0 {
		t.Errorf("without the annotation: %d", got)
	}
}

// TestRankIsAnOrder: sorting doesn't depend on the order before, and the chosen are the least valuable.
func TestRankIsAnOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	phases := []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodUnknown}
	for range 300 {
		var all []*v1.Pod
		for i := range 8 {
			options := []option{on([]string{"", "n1", "n2"}[random.IntN(3)]), in(phases[random.IntN(3)]),
				ready(time.Duration(random.IntN(5000)) * time.Second), cost(fmt.Sprint(random.IntN(3))),
				restarted(random.Int32N(3)),
				aged(time.Duration(random.IntN(5000)) * time.Second)}
			if random.IntN(2) == 0 {
				options = append(options, unready)
			}
			all = append(all, pod(fmt.Sprint("p", i), options...))
		}
		perNode := map[string]int{"n1": 3, "n2": 1}
		want := rank(all, perNode, now)
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got := rank(all, perNode, now); !slices.Equal(got, want) {
			t.Fatal("the order depends on the order before")
		}
		n := random.IntN(8)
		if !slices.Equal(choose(all, nil, 8, now), all) || len(choose(all, always(all), n, now)) != n {
			t.Fatal("another number was chosen")
		}
	}
}

// TestFailureOfEachHalf names the half that failed, and keeps the time of an old failure.
func TestFailureOfEachHalf(t *testing.T) {
	for creating, want := range map[bool]string{true: "FailedCreate", false: "FailedDelete"} {
		s := withFailure(apps.ReplicaSetStatus{}, errors.New("no"), creating, now)
		c := s.Conditions[0]
		if c.Type != apps.ReplicaSetReplicaFailure || c.Status != v1.ConditionTrue || c.Reason != want || c.Message != "no" ||
			!c.LastTransitionTime.Equal(ptr.To(metav1.NewTime(now))) {
			t.Errorf("%+v", c)
		}
	}
	if s := withFailure(apps.ReplicaSetStatus{}, nil, true, now); len(s.Conditions) != 0 {
		t.Errorf("without a failure: %+v", s.Conditions)
	}
}
