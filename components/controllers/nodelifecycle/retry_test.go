package nodelifecycle

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

// TestFailedEvictionWaits: a node that can't be tainted is tried again as time goes on, not at once.
func TestFailedEvictionWaits(t *testing.T) {
	sick := node("sick", v1.ConditionFalse)
	sick.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}}
	client := runnertest.NewClient(node("alive", v1.ConditionTrue), sick)
	var patches atomic.Int64
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		patches.Add(1)
		return true, nil, errors.New("connection refused")
	})
	fakeClock := clocktesting.NewFakeClock(start)
	runnertest.Start(t, client, fakeClock, func(env runner.Env) (runner.Controller, error) {
		return New(env, Options{MonitorPeriod: 5 * time.Second, MonitorGracePeriod: time.Hour,
			StartupGracePeriod: time.Hour, EvictionRate: 0.1, SecondaryRate: 0.01, LargeCluster: 50,
			UnhealthyZoneShare: 0.55})
	})
	for _, least := range []int64{1, 2} {
		runnertest.Eventually(t, func() (bool, string) {
			fakeClock.Step(evictionPeriod)
			return patches.Load() >= least, "no attempt"
		})
	}
	time.Sleep(20 * time.Millisecond) // what steps have begun
	tried := patches.Load()
	time.Sleep(100 * time.Millisecond)
	if more := patches.Load() - tried; more > 0 {
		t.Errorf("%d attempts while no time passed", more)
	}
}

// moving is a lister of a node whose zone is another one from the second look on.
type moving struct{ looks int }

func (m *moving) List(labels.Selector) ([]*v1.Node, error) { return nil, nil }

func (m *moving) Get(name string) (*v1.Node, error) {
	n := node(name, v1.ConditionFalse)
	if m.looks++; m.looks > 1 {
		n.Labels = map[string]string{v1.LabelTopologyZone: "b"}
	}
	return n, nil
}

// TestTokenGoesBack to the zone that it was taken from, if the node has another one meanwhile.
func TestTokenGoesBack(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("conflict")
	})
	env := runner.Env{Client: client, Clock: clock.RealClock{}, Workers: 1}
	c := &Controller{env: env, metrics: newMetrics(env), nodes: &moving{}, waiting: map[string]bool{"n": true},
		zones: map[string]zone{}, buckets: map[string]*bucket{}, rates: rates{Normal: 0.1}}
	c.loop = runner.NewLoop("test", env, c.reconcile)
	c.evict(t.Context())
	if len(c.buckets) != 1 {
		t.Errorf("%d zones have tokens", len(c.buckets))
	}
	for zone, b := range c.buckets {
		if b.tokens < 1 {
			t.Errorf("zone %q has %v tokens", zone, b.tokens)
		}
	}
}
