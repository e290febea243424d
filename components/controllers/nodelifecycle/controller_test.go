package nodelifecycle

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/controllers/nodes"
	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNodeFallsSilent: of two nodes one renews its lease; the other is declared lost, tainted, and its pods are taken
// out of service.
func TestNodeFallsSilent(t *testing.T) {
	fake := clocktesting.NewFakeClock(start)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1.PodSpec{NodeName: "lost"},
		Status: v1.PodStatus{Phase: v1.PodRunning,
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}}
	alive := lease(start)
	alive.Namespace, alive.Name = v1.NamespaceNodeLease, "alive"
	client := runnertest.NewClient(node("alive", v1.ConditionTrue), node("lost", v1.ConditionTrue), pod, alive)
	runnertest.Start(t, client, fake, func(env runner.Env) (runner.Controller, error) {
		return New(env, Options{MonitorPeriod: 5 * time.Second, MonitorGracePeriod: 50 * time.Second,
			StartupGracePeriod: time.Minute,
			EvictionRate:       0.1, SecondaryRate: 0.01, LargeCluster: 50, UnhealthyZoneShare: 0.55})
	})
	read := func(name string) *v1.Node {
		n, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	runnertest.Eventually(t, func() (bool, string) {
		fake.Step(time.Second)
		renewed := metav1.NewMicroTime(fake.Now())
		alive.Spec.RenewTime = &renewed
		if _, err := client.CoordinationV1().Leases(v1.NamespaceNodeLease).Update(t.Context(), alive,
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		lost := read("lost")
		p, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		done := nodes.HasTaint(lost, unreachable) &&
			nodes.HasTaint(lost, v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoSchedule}) &&
			p.Status.Conditions[0].Status == v1.ConditionFalse
		return done, fmt.Sprintf("taints %v, pod %+v", lost.Spec.Taints, p.Status.Conditions)
	})
	if n := read("alive"); nodes.Ready(n) != v1.ConditionTrue || len(n.Spec.Taints) != 0 {
		t.Errorf("the node that renews its lease: %+v, taints %v", n.Status.Conditions, n.Spec.Taints)
	}
}
