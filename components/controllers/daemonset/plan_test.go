package daemonset

import (
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
	"k8s.io/apimachinery/pkg/util/intstr"
)

// world plays API server, scheduler and kubelets.
type world struct {
	o      observed
	made   int
	random *rand.Rand
}

func newWorld(seed uint64, nodes int, unavailable, surge int32) *world {
	u, s := intstr.FromInt32(unavailable), intstr.FromInt32(surge)
	w := &world{random: rand.New(rand.NewPCG(seed,
		3)), o: observed{hash: "v1", expectationsMet: true, now: time.Unix(10000, 0), set: &apps.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", UID: "d"},
		Spec: apps.DaemonSetSpec{UpdateStrategy: apps.DaemonSetUpdateStrategy{Type: apps.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &apps.RollingUpdateDaemonSet{MaxUnavailable: &u, MaxSurge: &s}}},
	}}}
	for i := range nodes {
		w.o.nodes = append(w.o.nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
	}
	return w
}

func (w *world) reconcile() int {
	p := decide(w.o)
	w.o.set.Status = p.status
	for _, pod := range p.delete {
		pod.DeletionTimestamp = &metav1.Time{Time: w.o.now}
	}
	for _, node := range p.create {
		w.made++
		pod := newPod(w.o.set, node, w.o.hash)
		pod.Name, pod.UID = fmt.Sprint("p", w.made), types.UID(fmt.Sprint("p", w.made))
		pod.CreationTimestamp = metav1.NewTime(w.o.now)
		w.o.pods = append(w.o.pods, pod)
	}
	return len(p.delete) + len(p.create)
}

func (w *world) live() bool {
	w.o.now = w.o.now.Add(10 * time.Second)
	for _, i := range w.random.Perm(len(w.o.pods)) {
		pod := w.o.pods[i]
		switch {
		case pod.DeletionTimestamp != nil:
			w.o.pods = slices.Delete(w.o.pods, i, i+1)
			return true
		case len(pod.Status.Conditions) == 0:
			pod.Spec.NodeName = target(pod)
			pod.Status.Phase = v1.PodRunning
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(w.o.now)}}
			return true
		}
	}
	return false
}

func (w *world) settle(t *testing.T, check func()) {
	t.Helper()
	for range 5000 {
		busy := w.live()
		if w.random.IntN(2) == 0 || !busy {
			busy = w.reconcile() > 0 || busy
		}
		check()
		if !busy {
			return
		}
	}
	t.Fatal("never settles")
}

func (w *world) serving() int {
	nodes := map[string]bool{}
	for _, pod := range w.o.pods {
		if (&step{observed: w.o}).available(pod) {
			nodes[pod.Spec.NodeName] = true
		}
	}
	return len(nodes)
}

func (w *world) doubled() int {
	perNode, n := map[string]int{}, 0
	for _, pod := range w.o.pods {
		if pod.DeletionTimestamp == nil {
			if perNode[target(pod)]++; perNode[target(pod)] == 2 {
				n++
			}
		}
	}
	return n
}

func TestRollingBounds(t *testing.T) {
	for seed := range uint64(20) {
		for _, b := range []struct{ unavailable, surge int32 }{{1, 0}, {3, 0}, {0, 1}, {0, 2}} {
			w := newWorld(seed, 8, b.unavailable, b.surge)
			w.settle(t, func() {})
			if w.serving() != 8 {
				t.Fatalf("%d nodes serve", w.serving())
			}
			w.o.hash = "v2"
			w.settle(t, func() {
				if n := w.serving(); n < 8-int(b.unavailable) {
					t.Fatalf("%+v: only %d nodes serve", b, n)
				}
				if n := w.doubled(); n > int(b.surge) {
					t.Fatalf("%+v: %d nodes have two pods", b, n)
				}
			})
			if s := w.o.set.Status; s.UpdatedNumberScheduled != 8 || s.NumberAvailable != 8 || len(w.o.pods) != 8 {
				t.Fatalf("%+v: %d pods, status %+v", b, len(w.o.pods), s)
			}
		}
	}
}

func TestSuits(t *testing.T) {
	node := func(change func(*v1.Node)) *v1.Node {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"disk": "ssd"}}}
		change(n)
		return n
	}
	taint := func(key string, effect v1.TaintEffect) func(*v1.Node) {
		return func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: key, Effect: effect}} }
	}
	selects := func(value string) func(*apps.DaemonSet) {
		return func(s *apps.DaemonSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"disk": value} }
	}
	for name, tc := range map[string]struct {
		node      *v1.Node
		set       func(*apps.DaemonSet)
		run, stay bool
	}{
		"plain":              {node(func(*v1.Node) {}), nil, true, true},
		"selected":           {node(func(*v1.Node) {}), selects("ssd"), true, true},
		"not selected":       {node(func(*v1.Node) {}), selects("hdd"), false, false},
		"cordoned":           {node(taint(v1.TaintNodeUnschedulable, v1.TaintEffectNoSchedule)), nil, true, true},
		"not ready":          {node(taint(v1.TaintNodeNotReady, v1.TaintEffectNoExecute)), nil, true, true},
		"other, no schedule": {node(taint("x", v1.TaintEffectNoSchedule)), nil, false, true},
		"other, no execute":  {node(taint("x", v1.TaintEffectNoExecute)), nil, false, false},
		"other node": {node(func(*v1.Node) {}), func(s *apps.DaemonSet) { s.Spec.Template.Spec.NodeName = "m" },
			false, false},
	} {
		set := &apps.DaemonSet{}
		if tc.set != nil {
			tc.set(set)
		}
		if got, want := suitability(set)(tc.node), (fit{tc.run, tc.stay}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// A decision about four times the nodes takes four times the memory: nothing is copied for each pair of them.
func TestDecisionsGrowWithNodes(t *testing.T) {
	allocations := func(nodes int) float64 {
		w := newWorld(1, nodes, 1, 1)
		w.settle(t, func() {})
		for i := range w.o.nodes { // two pods on each, which tidying looks at
			pod := newPod(w.o.set, w.o.nodes[i].Name, "v0")
			pod.Name, pod.UID, pod.Spec.NodeName = fmt.Sprint("q", i), types.UID(fmt.Sprint("q", i)), w.o.nodes[i].Name
			w.o.pods = append(w.o.pods, pod)
		}
		return testing.AllocsPerRun(3, func() { decide(w.o) })
	}
	few, many := allocations(50), allocations(200)
	if many > 5*few {
		t.Errorf("%.0f allocations for 50 nodes, %.0f for 200", few, many)
	}
}

// The first failed pod of a node goes at once, each later one after twice the time; those that succeeded never wait.
func TestFailedPodsWait(t *testing.T) {
	w := newWorld(1, 1, 1, 0)
	failed := func(phase v1.PodPhase) []*v1.Pod {
		pod := newPod(w.o.set, "n0", w.o.hash)
		pod.Name, pod.Spec.NodeName, pod.Status.Phase = "p", "n0", phase
		return []*v1.Pod{pod}
	}
	w.o.retries = map[string]retry{}
	for _, want := range []time.Duration{0, 1, 2, 4, 8, 16} {
		w.o.pods = failed(v1.PodFailed)
		p := decide(w.o)
		if want > 0 {
			if len(p.delete) > 0 || p.again != want*time.Second {
				t.Errorf("deletes %d, looks again after %v, want %v", len(p.delete), p.again, want*time.Second)
			}
			w.o.now = w.o.now.Add(p.again)
			p = decide(w.o)
		}
		if len(p.delete) != 1 || len(p.ended) != 1 {
			t.Errorf("after %v: deletes %d", want*time.Second, len(p.delete))
		}
		maps.Copy(w.o.retries, p.retries)
	}
	w.o.pods = failed(v1.PodSucceeded)
	if p := decide(w.o); len(p.delete) != 1 {
		t.Error("a pod that succeeded waits")
	}
	w.o.pods, w.o.now = failed(v1.PodFailed), w.o.now.Add(2*longestRetry+time.Second)
	if p := decide(w.o); len(p.delete) != 1 || p.retries["n0"].wait != firstRetry {
		t.Error("what failed long ago counts")
	}
	w.o.expectationsMet, w.o.retries = false, nil
	if p := decide(w.o); len(p.delete)+len(p.retries) != 0 {
		t.Error("noted what was not done")
	}
}

// A node counts by the oldest of its bound pods: a surge that doesn't get far is no update.
func TestNodesCountByTheirOldestPod(t *testing.T) {
	w := newWorld(1, 1, 0, 1)
	pod := func(name, hash string, bound bool, age time.Duration) *v1.Pod {
		pod := newPod(w.o.set, "n0", hash)
		pod.Name, pod.CreationTimestamp, pod.Status.Phase = name, metav1.NewTime(w.o.now.Add(-age)), v1.PodRunning
		if bound {
			pod.Spec.NodeName = "n0"
		}
		return pod
	}
	for name, test := range map[string]struct {
		pods []*v1.Pod
		want int32
	}{
		"old and its surge":    {[]*v1.Pod{pod("a", "v0", true, time.Hour), pod("b", "v1", true, time.Minute)}, 0},
		"surge that is bound":  {[]*v1.Pod{pod("a", "v0", false, time.Hour), pod("b", "v1", true, time.Minute)}, 1},
		"only the current one": {[]*v1.Pod{pod("b", "v1", true, time.Minute)}, 1},
	} {
		w.o.pods = test.pods
		if got := decide(w.o).status.UpdatedNumberScheduled; got != test.want {
			t.Errorf("%s: %d updated, want %d", name, got, test.want)
		}
	}
}
