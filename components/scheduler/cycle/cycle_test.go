package cycle_test

import (
	"fmt"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func TestMessages(t *testing.T) {
	cluster := func() *snapshot.Snapshot {
		return schedulertest.Snapshot(
			schedulertest.Node("a", "cpu=1"), schedulertest.Node("b", "cpu=1 taint=NoSchedule"),
			schedulertest.Node("c", "cpu=1 unschedulable"), schedulertest.Node("d", "cpu=1 memory=1Gi"))
	}
	byName := func(names ...string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{
				NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
					NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name",
						Operator: v1.NodeSelectorOpIn, Values: names}}}},
				}},
			}
		}
	}
	const helpless = " no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful " +
		"for scheduling."
	cases := map[string]struct {
		spec   string
		change func(*v1.Pod)
		want   string
	}{
		"reasons are counted and sorted": {"cpu=2 memory=2Gi", nil,
			"0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu, 2 " +
				"Insufficient memory." + helpless},
		"named nodes": {"cpu=2", byName("a"),
			"0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]." +
				helpless},
		"no such node": {"", byName("x"),
			"0/4 nodes are available: 4 node(s) didn't satisfy plugin(s) [NodeAffinity]." + helpless},
		"claims": {"", func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: new("c")}}
		},
			`0/4 nodes are available: resourceclaim.resource.k8s.io "c" not found.` + helpless},
	}
	for name, c := range cases {
		d := profile(t).Schedule(cluster(),
			cycle.Request{Pod: snapshot.NewPod(schedulertest.Pod("p", c.spec, c.change))})
		if got := d.Message(); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
	d := profile(t).Schedule(snapshot.New(), cycle.Request{Pod: snapshot.NewPod(schedulertest.Pod("p", "", nil))})
	if got := d.Message(); got != "no nodes available to schedule pods" {
		t.Errorf("no nodes: %q", got)
	}
}

func TestExplains(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", "cpu=1 memory=1Gi"),
		schedulertest.Node("b", "cpu=4 memory=1Gi"), schedulertest.Node("c", "cpu=4 taint=NoSchedule"))
	d := profile(t).Schedule(s, cycle.Request{Pod: snapshot.NewPod(schedulertest.Pod("p", "cpu=1", nil)),
		Explain: true})
	if d.Node != "b" || len(d.Scores) != 2 {
		t.Fatalf("decision %+v", d)
	}
	want := []cycle.Refused{{Node: "c", Plugin: "TaintToleration",
		Refusal: &cycle.Refusal{Reasons: []string{"node(s) had untolerated taint(s)"}, Unresolvable: true}}}
	if !reflect.DeepEqual(d.Refused, want) {
		t.Errorf("refused %+v", d.Refused)
	}
	for _, score := range d.Scores {
		var sum int64
		for _, by := range score.ByPlugin {
			sum += by
		}
		if sum != score.Total {
			t.Errorf("%s: scores %v do not sum up to %d", score.Node, score.ByPlugin, score.Total)
		}
	}
}

func TestNominations(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", "cpu=1"))
	waits := snapshot.NewPod(schedulertest.Pod("waits", "cpu=1 priority=5", nil))
	nominations := cycle.Nominations{"a": {waits}}
	cases := map[string]struct {
		priority int
		node     string
	}{"less important": {4, ""}, "as important": {5, ""}, "more important": {6, "a"}}
	for name, c := range cases {
		p := snapshot.NewPod(schedulertest.Pod("p", fmt.Sprintf("cpu=1 priority=%d", c.priority), nil))
		if d := profile(t).Schedule(s, cycle.Request{Pod: p, Nominations: nominations}); d.Node != c.node {
			t.Errorf("%s: on %q, want %q", name, d.Node, c.node)
		}
	}
	if d := profile(t).Schedule(s, cycle.Request{Pod: waits, Nominations: nominations, Nominated: "a"}); d.Node != "a" {
		t.Errorf("the nominated pod itself: on %q", d.Node)
	}
}

func TestLooksAtEnough(t *testing.T) {
	s := snapshot.New()
	const total = 1000
	for i := range total {
		s.SetNode(schedulertest.Node(fmt.Sprintf("n%04d", i), fmt.Sprintf("zone=%d", i%3)))
	}
	cases := map[int]int{0: 420, 5: 100, 30: 300, 100: total} // percentage: feasible nodes
	for percentage, want := range cases {
		f := profile(t)
		f.Percentage = percentage
		d := f.Schedule(s, cycle.Request{Pod: snapshot.NewPod(schedulertest.Pod("p", "", nil)), Start: 900})
		if d.Feasible != want || d.Next != (900+want)%total {
			t.Errorf("%d%%: %d feasible, next %d; want %d", percentage, d.Feasible, d.Next, want)
		}
	}
}
