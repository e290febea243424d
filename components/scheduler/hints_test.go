package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// detached configures a scheduler with one profile, whose plug-ins have no cluster to ask.
func detached(profile string) *Config {
	return &Config{Client: fake.NewClientset(), Profiles: []Profile{{Name: profile}}}
}

// TestHintsMissNothing changes random small clusters one object at a time. Whenever a change lets a pod be scheduled
// that was refused before, the hints of the plug-ins that refused it must say so.
func TestHintsMissNothing(t *testing.T) {
	profiles, hints, err := build(detached(v1.DefaultSchedulerName))
	if err != nil {
		t.Fatal(err)
	}
	profile := profiles[v1.DefaultSchedulerName].cycle
	profile.PostFilters = nil
	helped := 0
	for seed := range uint64(2000) {
		w := &world{r: rand.New(rand.NewPCG(seed, 7)), s: snapshot.New(), nodes: map[string]*v1.Node{},
			pods: map[string]*snapshot.Pod{}}
		for range 6 {
			w.change()
		}
		for i := range 10 {
			p := snapshot.NewPod(w.pod(fmt.Sprintf("waiting-%d", i)))
			before := profile.Schedule(w.s, cycle.Request{Pod: p})
			e := w.change()
			after := profile.Schedule(w.s, cycle.Request{Pod: p})
			if before.Node != "" || after.Node == "" {
				continue
			}
			helped++
			if !hints.Helps(p, before.Plugins(), e) {
				t.Fatalf("seed %d: %v made room on %s for %+v, refused by %v: %s", seed, e.Kind, after.Node, p.Obj.Spec,
					before.Plugins(), before.Message())
			}
		}
	}
	if helped < 100 {
		t.Errorf("only %d changes helped a pod: the clusters are not worth the test", helped)
	}
}

// world is a cluster of a few nodes and pods.
type world struct {
	r     *rand.Rand
	s     *snapshot.Snapshot
	nodes map[string]*v1.Node
	pods  map[string]*snapshot.Pod
}

// change does one thing to the cluster and returns the event that the scheduler makes of it.
func (w *world) change() queue.Event {
	name := fmt.Sprint("n", w.r.IntN(3))
	if w.r.IntN(3) > 0 {
		return w.changePod(fmt.Sprint("p", w.r.IntN(5)), name)
	}
	old := w.nodes[name]
	if old != nil && w.r.IntN(4) == 0 {
		delete(w.nodes, name)
		w.s.RemoveNode(name)
		return queue.Event{Kind: queue.NodeRemoved, OldNode: old}
	}
	now := w.node(name)
	w.nodes[name] = now
	w.s.SetNode(now)
	if old == nil {
		return queue.Event{Kind: queue.NodeAdded, Node: now}
	}
	return queue.Event{Kind: nodeChanges(old, now), OldNode: old, Node: now}
}

func (w *world) changePod(name, node string) queue.Event {
	old := w.pods[name]
	if old != nil {
		delete(w.pods, name)
		w.s.RemovePod(old.UID())
		return queue.Event{Kind: queue.PodRemoved, OldPod: old}
	}
	obj := w.pod(name)
	obj.Spec.NodeName = node
	p := snapshot.NewPod(obj)
	w.pods[name] = p
	w.s.SetPod(p)
	return queue.Event{Kind: queue.PodAdded, Pod: p}
}

func (w *world) node(name string) *v1.Node {
	spec := fmt.Sprintf("cpu=%d", w.r.IntN(3))
	if w.r.IntN(4) > 0 {
		spec += fmt.Sprintf(" zone=%d", w.r.IntN(2))
	}
	switch w.r.IntN(6) {
	case 0:
		spec += " taint=NoSchedule"
	case 1:
		spec += " unschedulable"
	}
	return schedulertest.Node(name, spec)
}

func (w *world) pod(name string) *v1.Pod {
	spec := fmt.Sprintf("app=%d", w.r.IntN(2))
	if w.r.IntN(2) == 0 {
		spec += fmt.Sprintf(" cpu=%d", 1+w.r.IntN(2))
	}
	if w.r.IntN(4) == 0 {
		spec += " port=80"
	}
	terms := []v1.PodAffinityTerm{{TopologyKey: "zone",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(w.r.IntN(2))}}}}
	return schedulertest.Pod(name, spec, func(p *v1.Pod) {
		switch w.r.IntN(6) {
		case 0:
			p.Spec.NodeSelector = map[string]string{"zone": fmt.Sprint(w.r.IntN(2))}
		case 1:
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule,
				LabelSelector: terms[0].LabelSelector,
			}}
		case 2:
			p.Spec.Affinity = &v1.Affinity{
				PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
			}
		case 3:
			p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		}
	})
}
