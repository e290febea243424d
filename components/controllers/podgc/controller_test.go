package podgc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func node(name string, ready v1.ConditionStatus, taints ...v1.Taint) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{Taints: taints},
		Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}}}
}

func TestOutOfService(t *testing.T) {
	taint := func(effect v1.TaintEffect) v1.Taint {
		return v1.Taint{Key: v1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: effect}
	}
	for name, c := range map[string]struct {
		node *v1.Node
		want bool
	}{
		"down and tainted":        {node("n", v1.ConditionFalse, taint(v1.TaintEffectNoExecute)), true},
		"silent and tainted":      {node("n", v1.ConditionUnknown, taint(v1.TaintEffectNoExecute)), true},
		"whatever effect":         {node("n", v1.ConditionFalse, taint(v1.TaintEffectNoSchedule)), true},
		"no conditions":           {&v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{taint(v1.TaintEffectNoExecute)}}}, true},
		"ready, though tainted":   {node("n", v1.ConditionTrue, taint(v1.TaintEffectNoExecute)), false},
		"down":                    {node("n", v1.ConditionFalse), false},
		"down, another taint":     {node("n", v1.ConditionFalse, v1.Taint{Key: v1.TaintNodeUnreachable}), false},
		"down, one of two taints": {node("n", v1.ConditionFalse, v1.Taint{Key: "a"}, taint(v1.TaintEffectNoExecute)), true},
	} {
		if got := outOfService(c.node); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOldestEndedGo: of the ended pods beyond the threshold evicted ones go first, then the oldest, then by name.
func TestOldestEndedGo(t *testing.T) {
	ended := func(name string, age time.Duration, phase v1.PodPhase, reason string) *v1.Pod {
		p := pod(name, "n", phase, false, age)
		p.Status.Reason = reason
		return p
	}
	all := []*v1.Pod{
		ended("old", 3*time.Hour, v1.PodSucceeded, ""), ended("older", 4*time.Hour, v1.PodFailed, ""),
		ended("evicted", time.Minute, v1.PodFailed, "Evicted"), ended("b", time.Hour, v1.PodFailed, "Error"),
		ended("a", time.Hour, v1.PodFailed, ""), ended("not-evicted", time.Minute, v1.PodSucceeded, "Evicted"),
	}
	for threshold, want := range map[int]string{
		-1: "", 0: "", 6: "", 5: "evicted", 4: "evicted older", 3: "evicted older old", 2: "evicted older old a",
		1: "evicted older old a b", 100: "",
	} {
		o := observed{pods: all, nodes: map[string]*v1.Node{"n": node("n", v1.ConditionTrue)}, threshold: threshold}
		var got []string
		for _, d := range plan(o) {
			if d.fail || d.reason != "" {
				t.Errorf("%s has ended, and fails: %+v", d.pod.Name, d)
			}
			got = append(got, d.pod.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("threshold %d: %v, want %q", threshold, got, want)
		}
	}
}

// TestRunningPodsStay: no pod that runs where its node exists is ever collected, none twice, and never more ended ones
// than are beyond the threshold.
func TestRunningPodsStay(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	phases := []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown}
	for range 1000 {
		o := observed{threshold: random.IntN(6), missing: map[string]bool{"missing": true}, nodes: map[string]*v1.Node{
			"up": node("up", v1.ConditionTrue), "out": node("out", v1.ConditionFalse, v1.Taint{Key: v1.TaintNodeOutOfService})}}
		for i := range random.IntN(15) {
			o.pods = append(o.pods, pod(fmt.Sprint(i), []string{"", "up", "out", "missing", "new"}[random.IntN(5)],
				phases[random.IntN(5)], random.IntN(2) == 0, time.Duration(random.IntN(1000))*time.Second))
		}
		seen := map[string]bool{}
		ended, collected := 0, 0
		for _, d := range plan(o) {
			p, terminating := d.pod, d.pod.DeletionTimestamp != nil
			if seen[p.Name] {
				t.Fatalf("%s goes twice", p.Name)
			}
			seen[p.Name] = true
			switch on := p.Spec.NodeName; {
			case on == "missing":
				if d.reason != "DeletionByPodGC" || d.message != "PodGC: node no longer exists" || !d.fail {
					t.Fatalf("an orphan: %+v", d)
				}
			case terminating && (on == "" || on == "out"):
			case p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed:
				collected++
			default:
				t.Fatalf("collects %s on %q, %s, terminating %v", p.Name, on, p.Status.Phase, terminating)
			}
		}
		for _, p := range o.pods {
			if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
				ended++
			}
		}
		if collected > 0 && (o.threshold <= 0 || collected > ended-o.threshold) {
			t.Fatalf("collects %d of %d ended, threshold %d", collected, ended, o.threshold)
		}
	}
}

// run starts the controller and returns how pods fare: the deletions so far, and the status patches before them.
func run(t *testing.T, clock *clocktesting.FakeClock, threshold int, objects ...runtime.Object) (*fake.Clientset,
	func() []string) {
	t.Helper()
	client := runnertest.NewClient(objects...)
	runnertest.Start(t, client, clock, func(env runner.Env) (runner.Controller, error) { return New(env, threshold) })
	return client, func() []string {
		var done []string
		for _, action := range client.Actions() {
			switch a := action.(type) {
			case clienttesting.DeleteActionImpl:
				done = append(done, fmt.Sprint("delete ", a.Name, " ", *a.DeleteOptions.GracePeriodSeconds, " ",
					*a.DeleteOptions.Preconditions.UID))
			case clienttesting.PatchActionImpl:
				done = append(done, fmt.Sprint("patch ", a.Name, "/", a.GetSubresource(), " ", string(a.Patch)))
			}
		}
		return done
	}
}

func uid(p *v1.Pod) *v1.Pod {
	p.Namespace, p.UID = "ns", "uid-x"
	return p
}

// TestQuarantine: the pods of a node that is not there wait 40 s for it, and are failed with a reason before they go.
func TestQuarantine(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(100000, 0))
	client, done := run(t, clock, 10, uid(pod("p", "gone", v1.PodRunning, false, 0)), uid(pod("q", "n", v1.PodRunning,
		false, 0)),
		node("n", v1.ConditionTrue))
	start := clock.Now()
	runnertest.Eventually(t, func() (bool, string) {
		if len(done()) > 0 {
			return true, ""
		}
		if clock.HasWaiters() {
			clock.Step(5 * time.Second)
		}
		return false, fmt.Sprint(clock.Since(start))
	})
	if waited := clock.Since(start); waited < quarantine {
		t.Errorf("collected after %v", waited)
	}
	runnertest.Eventually(t, func() (bool, string) { return len(done()) == 2, fmt.Sprint(done()) })
	got := done()
	if !strings.Contains(got[0], `"phase":"Failed"`) || !strings.Contains(got[0], `"reason":"DeletionByPodGC"`) ||
		!strings.Contains(got[0], `"message":"PodGC: node no longer exists"`) || !strings.HasPrefix(got[0],
		"patch p/status ") ||
		got[1] != "delete p 0 uid-x" {
		t.Errorf("%q", got)
	}
	left, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "q" {
		t.Errorf("left %+v: %v", left, err)
	}
}

// TestCollectsAtOnce: out of service, never bound, beyond the threshold.
func TestCollectsAtOnce(t *testing.T) {
	_, done := run(t, clocktesting.NewFakeClock(time.Unix(100000, 0)), 1,
		node("out", v1.ConditionFalse, v1.Taint{Key: v1.TaintNodeOutOfService}), node("n", v1.ConditionTrue),
		uid(pod("on-out", "out", v1.PodRunning, true, 0)), uid(pod("unbound", "", v1.PodPending, true, 0)),
		uid(pod("old", "n", v1.PodSucceeded, false, time.Hour)), uid(pod("young", "n", v1.PodFailed, false, 0)))
	want := []string{"delete old 0 uid-x", "delete on-out 0 uid-x", "delete unbound 0 uid-x",
		`patch on-out/status {"metadata":{"uid":"uid-x"},"status":{"phase":"Failed"}}`,
		`patch unbound/status {"metadata":{"uid":"uid-x"},"status":{"phase":"Failed"}}`}
	runnertest.Eventually(t, func() (bool, string) {
		got := done()
		slices.Sort(got)
		return slices.Equal(got, want), strings.Join(got, "\n")
	})
}
