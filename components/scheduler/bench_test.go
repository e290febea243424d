package scheduler

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

const benchNodes = 5000

// BenchmarkCycle measures a decision and its assumption among 5,000 nodes; the pods/s are those of one loop.
func BenchmarkCycle(b *testing.B) {
	zone := v1.TopologySpreadConstraint{
		TopologyKey: v1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bench"}},
	}
	host := zone
	host.TopologyKey = v1.LabelHostname
	cases := map[string]func(*v1.Pod){
		"plain":           func(*v1.Pod) {},
		"plain, measured": func(*v1.Pod) {}, // for the metrics of plug-ins
		"spread/zone":     func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{zone} },
		"spread/host":     func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{host} },
		"selector":        func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "zone-1"} },
		"anti-affinity":   func(p *v1.Pod) { p.Spec.Affinity = antiAffinity() },
	}
	for name, change := range cases {
		b.Run(name, func(b *testing.B) {
			s := snapshot.New()
			for i := range benchNodes {
				n := newNode(fmt.Sprintf("node-%04d", i), "64")
				n.Labels[v1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%3)
				s.SetNode(n)
			}
			profiles, _, err := build(detached(v1.DefaultSchedulerName))
			if err != nil {
				b.Fatal(err)
			}
			profile := profiles[v1.DefaultSchedulerName].cycle
			if name == "plain, measured" {
				profile.Observer = &profileObserver{newPluginMetrics(), clock.RealClock{}, v1.DefaultSchedulerName}
			}
			at := 0
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				obj := newPod("p", "10m")
				obj.UID = types.UID(fmt.Sprint(i))
				obj.Labels = map[string]string{"app": "bench"}
				change(obj)
				p := snapshot.NewPod(obj)
				d := profile.Schedule(s, cycle.Request{Pod: p, Start: at, Seed: uint64(i), Measure: i%measureEvery == 0})
				at = d.Next
				if d.Node != "" {
					s.Assume(p, d.Node)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}

func antiAffinity() *v1.Affinity {
	return &v1.Affinity{
		PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey:   v1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bench"}},
		}}},
	}
}

// BenchmarkMove measures how the queue passes over an event that helps none of 10,000 waiting pods.
func BenchmarkMove(b *testing.B) {
	_, hints, err := build(detached(v1.DefaultSchedulerName))
	if err != nil {
		b.Fatal(err)
	}
	q := queue.New(queue.Config{
		Clock: clock.RealClock{}, Hints: hints, Gate: func(*snapshot.Pod) (string, string) { return "", "" },
	})
	for i := range 10000 {
		obj := newPod("p", "1")
		obj.UID = types.UID(fmt.Sprint(i))
		q.Add(snapshot.NewPod(obj))
		item, err := q.Pop(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		q.Requeue(item, []string{"NodeResourcesFit"}, false)
	}
	placed := snapshot.NewPod(newPod("placed", "1"))
	b.ResetTimer()
	for range b.N {
		q.Move(queue.Event{Kind: queue.PodAdded, Pod: placed})
	}
}

// BenchmarkPreempt measures how one of 500 pods finds victims among 5,000 nodes that pods of lower priority fill, while
// those before it still wait for theirs.
func BenchmarkPreempt(b *testing.B) {
	profiles, _, err := build(detached(v1.DefaultSchedulerName))
	if err != nil {
		b.Fatal(err)
	}
	s := snapshot.New()
	for i := range benchNodes {
		s.SetNode(newNode(fmt.Sprintf("node-%04d", i), "4"))
		for j := range 2 {
			low := newPod("low", "2")
			low.UID, low.Spec.NodeName = types.UID(fmt.Sprintf("%d-%d", i, j)), fmt.Sprintf("node-%04d", i)
			s.SetPod(snapshot.NewPod(low))
		}
	}
	var waiting *nominations
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%500 == 0 {
			waiting = newNominations()
		}
		obj := newPod("high", "4")
		obj.UID, obj.Spec.Priority = types.UID(fmt.Sprint(i)), new(int32(1000))
		p := snapshot.NewPod(obj)
		d := profiles[v1.DefaultSchedulerName].cycle.Schedule(s, cycle.Request{Pod: p, Nominations: waiting.current(),
			Seed: uint64(i)})
		if d.PostFilterResult == nil || len(d.PostFilterResult.Victims) != 2 {
			b.Fatalf("%s", d.Message())
		}
		waiting.set(p, d.PostFilterResult.Node)
	}
}
