package nodelifecycle

import (
	"fmt"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	start = time.Unix(100000, 0)
	g     = graces{startup: time.Minute, running: 50 * time.Second}
)

func node(name string, ready v1.ConditionStatus) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start)}}
	if ready != "" {
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready,
			LastHeartbeatTime: metav1.NewTime(start)}}
	}
	return n
}

func lease(renewed time.Time) *coordination.Lease {
	at := metav1.NewMicroTime(renewed)
	return &coordination.Lease{Spec: coordination.LeaseSpec{RenewTime: &at}}
}

func TestSilence(t *testing.T) {
	n := node("a", v1.ConditionTrue)
	p, conditions := evaluate(n, lease(start), nil, g, start)
	step := func(what string, l *coordination.Lease, after time.Duration, silent bool) {
		t.Helper()
		var next heartbeat
		next, conditions = evaluate(n, l, &p, g, start.Add(after))
		p = next
		if (conditions != nil) != silent {
			t.Fatalf("%s: silent = %v", what, conditions != nil)
		}
	}
	step("within grace", lease(start), 50*time.Second, false)
	step("lease renewed", lease(start.Add(49*time.Second)), 51*time.Second, false)
	step("still in grace of that", lease(start.Add(49*time.Second)), 101*time.Second, false)
	step("silent", lease(start.Add(49*time.Second)), 102*time.Second, true)
	if c := conditions[0]; c.Status != v1.ConditionUnknown || c.Reason != silentReason {
		t.Fatalf("ready: %+v", c)
	}
	if len(conditions) != 4 || conditions[1].Reason != "NodeStatusNeverUpdated" {
		t.Fatalf("conditions %+v", conditions)
	}
	n.Status.Conditions = conditions
	step("already said", lease(start.Add(49*time.Second)), 200*time.Second, false)
}

func TestNeverHeardOf(t *testing.T) {
	n := node("a", "")
	p, conditions := evaluate(n, nil, nil, g, start.Add(time.Minute))
	if conditions != nil {
		t.Fatal("silent within the startup grace")
	}
	if _, conditions = evaluate(n, nil, &p, g, start.Add(61*time.Second)); len(conditions) != 4 ||
		conditions[0].Reason != "NodeStatusNeverUpdated" {
		t.Fatalf("%+v", conditions)
	}
}

func TestSchedulingTaints(t *testing.T) {
	n := node("a", v1.ConditionUnknown)
	n.Spec.Unschedulable = true
	n.Spec.Taints = []v1.Taint{
		{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule},
		{Key: v1.TaintNodeDiskPressure, Effect: v1.TaintEffectNoSchedule},
		{Key: "mine", Effect: v1.TaintEffectNoSchedule},
	}
	add, remove := schedulingTaints(n)
	if fmt.Sprint(keys(add)) != "[node.kubernetes.io/unreachable node.kubernetes.io/unschedulable]" {
		t.Errorf("add %v", keys(add))
	}
	if fmt.Sprint(keys(remove)) != "[node.kubernetes.io/not-ready node.kubernetes.io/disk-pressure]" {
		t.Errorf("remove %v", keys(remove))
	}
	fresh := node("a", "")
	fresh.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}}
	if add, remove = schedulingTaints(fresh); len(add)+len(remove) != 0 {
		t.Errorf("a node that has not reported: add %v, remove %v", add, remove)
	}
}

func keys(taints []v1.Taint) []string {
	var keys []string
	for _, taint := range taints {
		keys = append(keys, taint.Key)
	}
	return keys
}

func TestEvictionTaints(t *testing.T) {
	for _, tc := range []struct {
		ready       v1.ConditionStatus
		has         []v1.Taint
		add, remove string
	}{
		{v1.ConditionTrue, nil, "", "[]"},
		{"", []v1.Taint{notReady}, "", "[]"},
		{v1.ConditionTrue, []v1.Taint{notReady, unreachable}, "",
			"[node.kubernetes.io/not-ready node.kubernetes.io/unreachable]"},
		{v1.ConditionFalse, nil, v1.TaintNodeNotReady, "[]"},
		{v1.ConditionUnknown, []v1.Taint{notReady}, v1.TaintNodeUnreachable, "[node.kubernetes.io/not-ready]"},
		{v1.ConditionUnknown, []v1.Taint{unreachable}, "", "[]"},
	} {
		n := node("a", tc.ready)
		n.Spec.Taints = tc.has
		add, remove := evictionTaints(n)
		got := ""
		if add != nil {
			got = add.Key
		}
		if got != tc.add || fmt.Sprint(keys(remove)) != tc.remove {
			t.Errorf("%s with %v: add %q, remove %v", tc.ready, keys(tc.has), got, keys(remove))
		}
	}
}

func TestSurvey(t *testing.T) {
	in := func(zone string, ready, lost int) []*v1.Node {
		var all []*v1.Node
		for i := range ready + lost {
			status := v1.ConditionTrue
			if i < lost {
				status = v1.ConditionUnknown
			}
			n := node(fmt.Sprint(zone, i), status)
			n.Labels = map[string]string{v1.LabelTopologyZone: zone}
			all = append(all, n)
		}
		return all
	}
	for name, tc := range map[string]struct {
		nodes []*v1.Node
		state zoneState
		blind bool
	}{
		"all well":              {in("a", 3, 0), normal, false},
		"two of three":          {in("a", 1, 2), normal, false},
		"three of five":         {in("a", 2, 3), partial, false},
		"three of six":          {in("a", 3, 3), normal, false},
		"the whole cluster":     {in("a", 0, 2), full, true},
		"one of two zones":      {append(in("a", 0, 2), in("b", 2, 0)...), full, false},
		"both of two zones":     {append(in("a", 0, 2), in("b", 0, 1)...), full, true},
		"one has not reported":  {append(in("a", 0, 1), node("new", "")), full, true},
		"the only node is lost": {in("a", 0, 1), full, true},
	} {
		zones, blind := survey(tc.nodes, 0.55)
		if got := zones["/a"].state; got != tc.state || blind != tc.blind {
			t.Errorf("%s: state %v blind %v", name, got, blind)
		}
	}
	r := rates{Normal: 0.1, Secondary: 0.01, Large: 50}
	for z, want := range map[zone]float64{{3, normal}: 0.1, {3, full}: 0.1, {50, partial}: 0, {51, partial}: 0.01} {
		if got := r.of(z); got != want {
			t.Errorf("rate of %+v: %v, want %v", z, got, want)
		}
	}
}

func TestBucket(t *testing.T) {
	var b bucket
	if !b.take(0.1, start) || b.take(0.1, start.Add(9*time.Second)) || !b.take(0.1, start.Add(11*time.Second)) {
		t.Error("not one at once and then one in ten seconds")
	}
	if b.take(0, start.Add(time.Hour)) {
		t.Error("let through at rate 0")
	}
	if !b.take(0.1, start.Add(time.Hour+time.Minute)) || b.take(0.1, start.Add(time.Hour+time.Minute+time.Second)) {
		t.Error("saved up more than one")
	}
}
