package nodelifecycle

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/nodes"
)

// TestSilentConditions: what was known turns Unknown, what was never told is told so, what is Unknown stays.
func TestSilentConditions(t *testing.T) {
	later := start.Add(time.Hour)
	n := node("a", v1.ConditionTrue)
	n.Status.Conditions[0].Reason, n.Status.Conditions[0].Message = "KubeletReady", "m"
	n.Status.Conditions = append(n.Status.Conditions,
		v1.NodeCondition{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse, LastHeartbeatTime: metav1.NewTime(start)},
		v1.NodeCondition{Type: v1.NodePIDPressure, Status: v1.ConditionUnknown, Reason: "mine",
			LastTransitionTime: metav1.NewTime(start)},
		v1.NodeCondition{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse})
	want := []string{
		"Ready Unknown NodeStatusUnknown Kubelet stopped posting node status. 0s 1h0m0s",
		"DiskPressure Unknown NodeStatusUnknown Kubelet stopped posting node status. 0s 1h0m0s",
		"PIDPressure Unknown mine  - 0s",
		"NetworkUnavailable False   - -",
		"MemoryPressure Unknown NodeStatusNeverUpdated Kubelet never posted node status. 0s 1h0m0s",
	}
	since := func(at metav1.Time) string {
		if at.IsZero() {
			return "-"
		}
		return at.Sub(start).String()
	}
	var got []string
	for _, c := range silent(n, later) {
		got = append(got, fmt.Sprint(c.Type, " ", c.Status, " ", c.Reason, " ", c.Message, " ", since(c.LastHeartbeatTime),
			" ",
			since(c.LastTransitionTime)))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n.Status.Conditions[0].Status != v1.ConditionTrue {
		t.Error("the informer's node was changed")
	}
}

// TestHeartbeats: either of the two signs of life starts the grace period again, at the time it is seen here.
func TestHeartbeats(t *testing.T) {
	n := node("a", v1.ConditionTrue)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	last, _ := evaluate(n, lease(start), nil, g, start)
	for _, c := range []struct {
		what            string
		now             int
		renewed, posted int
		seen            int
		silent          bool
	}{
		{"nothing new", 20, 0, 0, 0, false},
		{"the lease", 30, 25, 0, 30, false},
		{"the lease again, unchanged", 40, 25, 0, 30, false},
		{"the status", 60, 25, 55, 60, false},
		{"at the end of the grace period", 110, 25, 55, 60, false},
		{"after it", 111, 25, 55, 60, true},
		{"a lease from before", 112, 20, 55, 60, true},
		{"the lease, with a clock that is far behind", 120, 26, 55, 120, false},
	} {
		n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(at(c.posted))
		next, conditions := evaluate(n, lease(at(c.renewed)), &last, g, at(c.now))
		if !next.seen.Equal(at(c.seen)) || (conditions != nil) != c.silent {
			t.Errorf("%s: seen after %v, silent %v", c.what, next.seen.Sub(start), conditions != nil)
		}
		if c.what != "a lease from before" {
			last = next
		}
	}
}

func TestMissingLabels(t *testing.T) {
	for name, c := range map[string]struct{ have, want string }{
		"none": {"", "map[]"},
		"both stable": {"kubernetes.io/os=linux kubernetes.io/arch=arm64",
			"map[beta.kubernetes.io/arch:arm64 beta.kubernetes.io/os:linux]"},
		"equal":        {"kubernetes.io/os=linux beta.kubernetes.io/os=linux", "map[]"},
		"different":    {"kubernetes.io/os=linux beta.kubernetes.io/os=windows", "map[beta.kubernetes.io/os:linux]"},
		"only the old": {"beta.kubernetes.io/os=linux", "map[]"},
		"one is missing": {"kubernetes.io/os=linux kubernetes.io/arch=arm64 beta.kubernetes.io/os=linux",
			"map[beta.kubernetes.io/arch:arm64]"},
	} {
		n := node("a", v1.ConditionTrue)
		n.Labels = map[string]string{}
		for word := range strings.FieldsSeq(c.have) {
			key, value, _ := strings.Cut(word, "=")
			n.Labels[key] = value
		}
		got := missingLabels(n)
		if fmt.Sprint(got) != c.want || (len(got) == 0) != (got == nil) {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestTaintsFollowConditions: applying what is to be added and removed once gives exactly the taints of the conditions,
// whatever was there, keeps others, and leaves nothing to do.
func TestTaintsFollowConditions(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 6))
	statuses := []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown}
	kinds := []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodeNetworkUnavailable,
		v1.NodePIDPressure}
	for range 2000 {
		n := node("a", statuses[random.IntN(3)])
		want := map[string]bool{"mine:NoSchedule": true}
		switch n.Status.Conditions[0].Status {
		case v1.ConditionFalse:
			want[v1.TaintNodeNotReady+":NoSchedule"], want[v1.TaintNodeNotReady+":NoExecute"] = true, true
		case v1.ConditionUnknown:
			want[v1.TaintNodeUnreachable+":NoSchedule"], want[v1.TaintNodeUnreachable+":NoExecute"] = true, true
		}
		for i, kind := range kinds {
			if random.IntN(3) == 0 {
				continue
			}
			status := statuses[random.IntN(3)]
			n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: kind, Status: status})
			key := []string{v1.TaintNodeMemoryPressure, v1.TaintNodeDiskPressure, v1.TaintNodeNetworkUnavailable,
				v1.TaintNodePIDPressure}[i]
			if status == v1.ConditionTrue {
				want[key+":NoSchedule"] = true
			}
		}
		if n.Spec.Unschedulable = random.IntN(2) == 0; n.Spec.Unschedulable {
			want[v1.TaintNodeUnschedulable+":NoSchedule"] = true
		}
		n.Spec.Taints = []v1.Taint{{Key: "mine", Effect: v1.TaintEffectNoSchedule}}
		for _, rule := range conditionTaints {
			if random.IntN(2) == 0 && !nodes.HasTaint(n, v1.Taint{Key: rule.key, Effect: v1.TaintEffectNoSchedule}) {
				n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: rule.key, Effect: v1.TaintEffectNoSchedule})
			}
		}
		for _, taint := range []v1.Taint{notReady, unreachable} {
			if random.IntN(2) == 0 {
				n.Spec.Taints = append(n.Spec.Taints, taint)
			}
		}
		add, remove := schedulingTaints(n)
		evict, cured := evictionTaints(n)
		if evict != nil {
			add = append(add, *evict)
		}
		n.Spec.Taints, _ = nodes.WithTaints(n.Spec.Taints, add, append(remove, cured...), metav1.NewTime(start))
		got := map[string]bool{}
		for _, taint := range n.Spec.Taints {
			got[taint.Key+":"+string(taint.Effect)] = true
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(n.Spec.Taints) != len(want) {
			t.Fatalf("conditions %+v: taints %v, want %v", n.Status.Conditions, n.Spec.Taints, want)
		}
		add, remove = schedulingTaints(n)
		if evict, cured = evictionTaints(n); len(add)+len(remove)+len(cured) > 0 || evict != nil {
			t.Fatalf("never settles: %v %v %v %v", add, remove, evict, cured)
		}
	}
}

// TestSurveyProperty: a zone is partly lost only from three lost nodes and the threshold on, and a cluster is blind
// exactly if no node that has reported is ready.
func TestSurveyProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 3))
	for range 2000 {
		var all []*v1.Node
		size, lost, ready := map[string]int{}, map[string]int{}, 0
		for i := range random.IntN(20) {
			status := []v1.ConditionStatus{"", v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown}[random.IntN(4)]
			n := node(fmt.Sprint(i), status)
			zone := fmt.Sprint("z", random.IntN(3))
			n.Labels = map[string]string{v1.LabelTopologyRegion: "r", v1.LabelTopologyZone: zone}
			all = append(all, n)
			switch status {
			case "":
				continue
			case v1.ConditionTrue:
				ready++
			default:
				lost["r/"+zone]++
			}
			size["r/"+zone]++
		}
		zones, blind := survey(all, 0.55)
		if blind != (len(size) > 0 && ready == 0) || len(zones) != len(size) {
			t.Fatalf("blind %v with %d ready in %d zones", blind, ready, len(size))
		}
		for name, z := range zones {
			want := normal
			switch share := float64(lost[name]) / float64(size[name]); {
			case lost[name] == size[name]:
				want = full
			case lost[name] >= 3 && share >= 0.55:
				want = partial
			}
			if z.state != want || z.size != size[name] {
				t.Fatalf("%d of %d lost: %+v", lost[name], size[name], z)
			}
		}
	}
}

// TestRateNeverExceeded: over any stretch of time a bucket lets through at most one node more than its rate.
func TestRateNeverExceeded(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		var b bucket
		rate := random.Float64()
		now, taken := start, 0
		for range 300 {
			now = now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
			if b.take(rate, now) {
				taken++
			}
			if limit := 1 + now.Sub(start).Seconds()*rate; float64(taken) > limit+1e-6 {
				t.Fatalf("%d nodes in %v at %v a second", taken, now.Sub(start), rate)
			}
		}
	}
}
