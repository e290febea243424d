package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/plugins"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func profile(t testing.TB) *cycle.Profile {
	t.Helper()
	p := &cycle.Profile{}
	for _, e := range plugins.Default() {
		plugin, err := e.New(nil, plugins.Dependencies{})
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := plugin.(cycle.Filter); ok {
			p.Filters = append(p.Filters, f)
		}
		if s, ok := plugin.(cycle.Score); ok {
			p.Scores = append(p.Scores, cycle.Weighted{Score: s, Weight: e.Weight})
		}
		if f, ok := plugin.(cycle.PostFilter); ok {
			p.PostFilters = append(p.PostFilters, f)
		}
	}
	return p
}

func node(r *rand.Rand, i int) *v1.Node {
	spec := fmt.Sprintf("cpu=%d memory=%dGi zone=%d", 1+r.IntN(4), 1+r.IntN(4), r.IntN(3))
	if r.IntN(6) == 0 {
		spec += " taint=NoSchedule"
	}
	if r.IntN(10) == 0 {
		spec += " unschedulable"
	}
	return schedulertest.Node(fmt.Sprintf("n%03d", i), spec)
}

func pod(r *rand.Rand, i int) *v1.Pod {
	spec := fmt.Sprintf("cpu=%dm memory=%dMi app=%d priority=%d", 100*r.IntN(12), 100*r.IntN(12), r.IntN(3), r.IntN(3))
	if r.IntN(5) == 0 {
		spec += fmt.Sprintf(" port=%d", 80+r.IntN(3))
	}
	return schedulertest.Pod(fmt.Sprintf("p%03d", i), spec, func(p *v1.Pod) {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(r.IntN(3))}}
		switch r.IntN(6) {
		case 0:
			p.Spec.NodeSelector = map[string]string{"zone": fmt.Sprint(r.IntN(3))}
		case 1:
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{TopologyKey: "zone", MaxSkew: 1,
				WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector}}
		case 2:
			p.Spec.Affinity = &v1.Affinity{
				PodAntiAffinity: &v1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
						{TopologyKey: v1.LabelHostname, LabelSelector: selector},
					},
				},
			}
		case 3:
			p.Spec.Affinity = &v1.Affinity{
				PodAffinity: &v1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
						{TopologyKey: "zone", LabelSelector: selector},
					},
				},
			}
		case 4:
			p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
		}
	})
}

// TestProperties fills random clusters and holds every decision against the filters asked one by one, against a second
// cycle, and against the same cycle on a snapshot built from nothing.
func TestProperties(t *testing.T) {
	const seeds, nodes, pods = 25, 130, 120
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := snapshot.New()
		var objects []metav1.Object
		for i := range 1 + r.IntN(nodes) {
			n := node(r, i)
			objects = append(objects, n)
			s.SetNode(n)
		}
		f := profile(t)
		start := 0
		for i := range pods {
			p := snapshot.NewPod(pod(r, i))
			request := cycle.Request{Pod: p, Start: start, Seed: r.Uint64()}
			d := f.Schedule(s, request)
			if again := f.Schedule(s, request); !reflect.DeepEqual(d, again) {
				t.Fatalf("seed %d: the same input gave\n%+v\n%+v", seed, d, again)
			}
			if rebuilt := profile(t).Schedule(schedulertest.Snapshot(objects...),
				request); !reflect.DeepEqual(simple(d), simple(rebuilt)) {
				t.Fatalf("seed %d: a snapshot kept up to date gave\n%+v\nbut a rebuilt one\n%+v", seed, simple(d),
					simple(rebuilt))
			}
			verify(t, s, f, p, d)
			start = d.Next
			if d.Node == "" {
				continue
			}
			s.Assume(p, d.Node)
			placed := p.Obj.DeepCopy()
			placed.Spec.NodeName = d.Node
			objects = append(objects, placed)
			if r.IntN(8) == 0 {
				s.RemovePod(p.UID())
				objects = objects[:len(objects)-1]
			}
		}
	}
}

// simple drops the victims, which are different copies of the same pods.
func simple(d *cycle.Decision) cycle.Decision {
	c := *d
	if d.PostFilterResult != nil {
		result := *d.PostFilterResult
		result.Victims = nil
		c.PostFilterResult = &result
	}
	return c
}

// verify runs each filter again.
func verify(t *testing.T, s *snapshot.Snapshot, f *cycle.Profile, p *snapshot.Pod, d *cycle.Decision) {
	t.Helper()
	said := map[string]bool{}
	for _, filter := range f.Filters {
		for name := range schedulertest.Check(filter, p.Obj, s) {
			said[name] = true
		}
	}
	switch {
	case d.Node != "" && said[d.Node]:
		t.Fatalf("pod %s was put on %s against a filter", p.Obj.Name, d.Node)
	case d.Node == "" && len(said) != d.Total:
		t.Fatalf("pod %s was refused, but %d of %d nodes can take it", p.Obj.Name, d.Total-len(said), d.Total)
	}
}
