package defaultpreemption

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/plugins/noderesources"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func victimsOf(r *cycle.PostFilterResult) []string {
	var names []string
	if r != nil {
		for _, v := range r.Victims {
			names = append(names, v.Obj.Name)
		}
	}
	return names
}

// TestVictimsOnANode: as many pods as possible stay, the important and the old ones and those of budgets first; the
// victims are told in the order of their importance.
func TestVictimsOnANode(t *testing.T) {
	for name, c := range map[string]struct {
		pods    []string
		asks    string
		budgets []*policyv1.PodDisruptionBudget
		want    []string
	}{
		"the younger of equals": {
			pods: []string{"node=a cpu=2 priority=1 started=200", "node=a cpu=2 priority=1 started=100"},
			asks: "cpu=2 priority=5", want: []string{"p0"}},
		"one that has not started is the youngest": {
			pods: []string{"node=a cpu=2 priority=1", "node=a cpu=2 priority=1 started=300"},
			asks: "cpu=2 priority=5", want: []string{"p0"}},
		"a small one of higher priority stays": {
			pods: []string{"node=a cpu=3 priority=1", "node=a cpu=1 priority=4"},
			asks: "cpu=3 priority=5", want: []string{"p0"}},
		"the less important stay where the important ones don't fit": {
			pods: []string{"node=a cpu=3 priority=4", "node=a cpu=1 priority=1"},
			asks: "cpu=2 priority=5", want: []string{"p0"}},
		"several, the most important first": {
			pods: []string{"node=a cpu=1 priority=1", "node=a cpu=1 priority=3", "node=a cpu=2 priority=2"},
			asks: "cpu=4 priority=5", want: []string{"p1", "p2", "p0"}},
		"equals are not touched": {
			pods: []string{"node=a cpu=2 priority=5", "node=a cpu=2 priority=4"},
			asks: "cpu=2 priority=5", want: []string{"p1"}},
		"a budget protects the less important": {
			pods: []string{"node=a cpu=2 priority=1 app=x", "node=a cpu=2 priority=4"}, asks: "cpu=2 priority=5",
			budgets: []*policyv1.PodDisruptionBudget{budget("x", 0)}, want: []string{"p1"}},
		"a budget with one to spare protects the second": {
			pods: []string{"node=a cpu=2 priority=2 app=x", "node=a cpu=2 priority=1 app=x"}, asks: "cpu=2 priority=5",
			budgets: []*policyv1.PodDisruptionBudget{budget("x", 1)}, want: []string{"p0"}},
		"a budget with enough protects none": {
			pods: []string{"node=a cpu=2 priority=2 app=x", "node=a cpu=2 priority=1 app=x"}, asks: "cpu=2 priority=5",
			budgets: []*policyv1.PodDisruptionBudget{budget("x", 2)}, want: []string{"p1"}},
	} {
		objects := []metav1.Object{schedulertest.Node("a", "cpu=4")}
		for i, spec := range c.pods {
			objects = append(objects, schedulertest.Pod(fmt.Sprint("p", i), spec, nil))
		}
		s := schedulertest.Snapshot(objects...)
		for _, b := range c.budgets {
			s.SetBudget(b)
		}
		d := schedule(s, schedulertest.Pod("new", c.asks, nil), "")
		if got := victimsOf(d.PostFilterResult); !slices.Equal(got, c.want) {
			t.Errorf("%s: victims %v, want %v", name, got, c.want)
		}
		if len(s.Node("a").Pods) != len(c.pods) {
			t.Errorf("%s: the snapshot has lost pods", name)
		}
	}
}

// TestBudgetCovers: a budget counts pods of its namespace that its selector selects, unless it counted them already.
func TestBudgetCovers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		spec   string
		want   bool
	}{
		"selected":          {nil, "app=x", true},
		"not selected":      {nil, "app=y", false},
		"pod of no labels":  {nil, "", false},
		"another namespace": {func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" }, "app=x", false},
		"an empty selector": {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} },
			"app=x", false},
		"no selector": {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }, "app=x", false},
		"disrupted already": {func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptedPods = map[string]metav1.Time{"p": {}}
		}, "app=x", false},
	} {
		b := budget("x", 0)
		if c.change != nil {
			c.change(b)
		}
		s := snapshot.New()
		s.SetBudget(b)
		p := schedulertest.Pod("p", c.spec, nil)
		if got := covers(collect(s)[0], p); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPickOrder: each criterion decides only where those before it are equal.
func TestPickOrder(t *testing.T) {
	victim := func(spec string) *snapshot.Pod { return snapshot.NewPod(schedulertest.Pod("v", spec, nil)) }
	of := func(node string, violations int, specs ...string) *candidate {
		c := &candidate{node: node, violations: violations}
		for _, spec := range specs {
			c.victims = append(c.victims, victim(spec))
		}
		return c
	}
	for name, pair := range map[string][2]*candidate{ // the first of each is the better one
		"fewer exceeded budgets":    {of("a", 0, "priority=9", "priority=9"), of("b", 1, "priority=1")},
		"a less important most one": {of("a", 0, "priority=3", "priority=3"), of("b", 0, "priority=4")},
		"a smaller sum":             {of("a", 0, "priority=4", "priority=1"), of("b", 0, "priority=4", "priority=2")},
		"negative ones add up, too": {of("a", 0, "priority=-5"), of("b", 0, "priority=-5", "priority=-9")},
		"a later start":             {of("a", 0, "priority=4 started=9"), of("b", 0, "priority=4 started=8")},
		"a later start of the oldest": {of("a", 0, "priority=4 started=5", "priority=4 started=6"),
			of("b", 0, "priority=4 started=9", "priority=4 started=4")},
		"of the most important only": {of("a", 0, "priority=4 started=5", "priority=3 started=1"),
			of("b", 0, "priority=4 started=4", "priority=3 started=9")},
		"no victims at all":             {of("a", 0), of("b", 0, "priority=-100")},
		"the first, of alike":           {of("a", 0, "priority=4 started=5"), of("b", 0, "priority=4 started=5")},
		"one that hasn't started":       {of("a", 0, "priority=4"), of("b", 0, "priority=4 started=5")},
		"budgets before start":          {of("a", 1, "priority=4 started=1"), of("b", 2, "priority=4 started=9")},
		"importance before their count": {of("a", 0, "priority=1", "priority=1", "priority=1"), of("b", 0, "priority=2")},
	} {
		if got := pick([]*candidate{pair[0], pair[1]}); got != pair[0] {
			t.Errorf("%s: picked %s", name, got.node)
		}
		if name == "the first, of alike" {
			continue
		}
		if got := pick([]*candidate{pair[1], pair[0]}); got != pair[0] {
			t.Errorf("%s, the other way round: picked %s", name, got.node)
		}
	}
}

// TestLooksForOneWithinBudgets: enough candidates don't end the search while all of them exceed a budget.
func TestLooksForOneWithinBudgets(t *testing.T) {
	var objects []metav1.Object
	for i := range 6 {
		node := fmt.Sprint("n", i)
		app := "x"
		if i == 4 {
			app = "free"
		}
		objects = append(objects, schedulertest.Node(node, "cpu=1"),
			schedulertest.Pod("on-"+node, fmt.Sprintf("node=%s cpu=1 priority=1 app=%s", node, app), nil))
	}
	s := schedulertest.Snapshot(objects...)
	s.SetBudget(budget("x", 0))
	tries := 0
	profile := &cycle.Profile{
		Filters:     []cycle.Filter{&noderesources.Fit{}, counting{&tries}},
		PostFilters: []cycle.PostFilter{&Plugin{Absolute: 2}},
	}
	pod := snapshot.NewPod(schedulertest.Pod("p", "cpu=1 priority=5", nil))
	d := profile.Schedule(s, cycle.Request{Pod: pod})
	if d.PostFilterResult == nil || d.PostFilterResult.Node != "n4" {
		t.Fatalf("result %+v", d.PostFilterResult)
	}
	if tries != 5 {
		t.Errorf("%d nodes were tried, want n0 to n4", tries)
	}
}

// counting is a filter that all nodes pass; it counts how often it is asked, which is once for each node that is tried.
type counting struct{ asked *int }

func (counting) Name() string { return "Counting" }
func (c counting) Filter(*snapshot.Pod, *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	return c, nil
}

func (c counting) Check(*snapshot.Node) *cycle.Refusal { *c.asked++; return nil }

// TestEligible: a pod that preempted before waits for its victims, if its nominated node can still become its own.
func TestEligible(t *testing.T) {
	leaving := func(conditions ...v1.PodCondition) func(*v1.Pod) {
		return func(p *v1.Pod) { p.DeletionTimestamp, p.Status.Conditions = &metav1.Time{}, conditions }
	}
	condition := func(status v1.ConditionStatus, reason string) v1.PodCondition {
		return v1.PodCondition{Type: v1.DisruptionTarget, Status: status, Reason: reason}
	}
	byScheduler := condition(v1.ConditionTrue, v1.PodReasonPreemptionByScheduler)
	refusedFor := func(unresolvable bool) []cycle.Refused {
		return []cycle.Refused{{Node: "a", Refusal: &cycle.Refusal{Unresolvable: unresolvable}}}
	}
	for name, c := range map[string]struct {
		there     *v1.Pod
		nominated string
		refused   []cycle.Refused
		want      string
	}{
		"its victim leaves": {schedulertest.Pod("v", "node=a priority=1", leaving(byScheduler)), "a",
			refusedFor(false), stillLeaving},
		"its victim leaves, and nothing helps there": {
			schedulertest.Pod("v", "node=a priority=1", leaving(byScheduler)), "a", refusedFor(true), ""},
		"not nominated": {schedulertest.Pod("v", "node=a priority=1", leaving(byScheduler)), "", refusedFor(false), ""},
		"nominated to a node that is gone": {schedulertest.Pod("v", "node=a priority=1", leaving(byScheduler)), "x",
			refusedFor(false), ""},
		"one leaves by itself": {schedulertest.Pod("v", "node=a priority=1", leaving()), "a", refusedFor(false), ""},
		"one was evicted for another reason": {schedulertest.Pod("v", "node=a priority=1",
			leaving(condition(v1.ConditionTrue, "EvictionByEvictionAPI"))), "a", refusedFor(false), ""},
		"its disruption was taken back": {schedulertest.Pod("v", "node=a priority=1",
			leaving(condition(v1.ConditionFalse, v1.PodReasonPreemptionByScheduler))), "a", refusedFor(false), ""},
		"one as important leaves": {schedulertest.Pod("v", "node=a priority=9", leaving(byScheduler)), "a",
			refusedFor(false), ""},
		"nothing leaves": {schedulertest.Pod("v", "node=a priority=1", nil), "a", refusedFor(false), ""},
	} {
		s := schedulertest.Snapshot(schedulertest.Node("a", "cpu=1"), c.there)
		a := &cycle.Attempt{Pod: snapshot.NewPod(schedulertest.Pod("p", "priority=9", nil)), Snapshot: s}
		if got := (&Plugin{}).eligible(a, c.refused, c.nominated); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
