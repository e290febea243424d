package daemonset

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
	w := &world{random: rand.New(rand.NewPCG(seed, 3)), o: observed{hash: "v1", settled: true, now: time.Unix(10000, 0), set: &apps.DaemonSet{
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
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.o.now)}}
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
		if w.o.available(pod) {
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
		"other node":         {node(func(*v1.Node) {}), func(s *apps.DaemonSet) { s.Spec.Template.Spec.NodeName = "m" }, false, false},
	} {
		set := &apps.DaemonSet{}
		if tc.set != nil {
			tc.set(set)
		}
		if run, stay := suits(set, tc.node); run != tc.run || stay != tc.stay {
			t.Errorf("%s: run %v, stay %v", name, run, stay)
		}
	}
}
