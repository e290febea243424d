package probes

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// bench is a container with configurable HTTP responses, under a fake clock.
type bench struct {
	t       *testing.T
	clock   *clocktesting.FakeClock
	manager *Manager
	pod     *v1.Pod
	code    atomic.Int32
	asked   chan struct{}
	changed chan types.UID
}

func newBench(t *testing.T, c v1.Container) *bench {
	b := &bench{t: t, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), asked: make(chan struct{}, 100),
		changed: make(chan types.UID, 100)}
	b.code.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(b.code.Load()))
		b.asked <- struct{}{}
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strconv.Atoi(port)
	for _, probe := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if probe != nil {
			probe.HTTPGet = &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(int32(number)), Host: host}
		}
	}
	c.Name = "c"
	b.pod = &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c}}}
	b.manager = &Manager{
		Runner: &hooks.Runner{Clock: b.clock}, Clock: b.clock,
		Changed: func(uid types.UID) { b.changed <- uid },
		Record:  func(*v1.Pod, *v1.Container, string, string, string) {},
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		b.manager.Wait()
	})
	b.sync(ctx, false)
	return b
}

func (b *bench) sync(ctx context.Context, ending bool) State {
	observed := &runtime.Pod{Containers: []runtime.Container{{ID: "id", Name: "c", State: runtime.Running,
		Started: time.Unix(1000, 0)}}}
	return b.manager.Sync(ctx, b.pod, observed, ending, nil)
}

func (b *bench) awaitProbe() {
	b.t.Helper()
	select {
	case <-b.asked:
	case <-time.After(30 * time.Second):
		b.t.Fatal("no probe")
	}
}

func (b *bench) awaitChange() State {
	b.t.Helper()
	select {
	case <-b.changed:
	case <-time.After(30 * time.Second):
		b.t.Fatal("no change")
	}
	return b.sync(context.Background(), false)
}

// tick waits until a probe sleeps and lets a period pass.
func (b *bench) tick(d time.Duration) {
	b.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !b.clock.HasWaiters(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatal("no probe sleeps")
		}
	}
	b.clock.Step(d)
}

func TestReadinessFollowsThresholds(t *testing.T) {
	b := newBench(t,
		v1.Container{ReadinessProbe: &v1.Probe{PeriodSeconds: 5, FailureThreshold: 2, SuccessThreshold: 1}})
	if b.sync(context.Background(), false).Started["id"] != true {
		t.Error("not started though there is no startup probe")
	}
	b.awaitProbe()
	if !b.awaitChange().Ready["id"] {
		t.Error("not ready after a success")
	}
	b.code.Store(http.StatusInternalServerError)
	b.tick(5 * time.Second)
	b.awaitProbe()
	if !b.sync(context.Background(), false).Ready["id"] {
		t.Error("one failure of two was enough")
	}
	b.tick(5 * time.Second)
	b.awaitProbe()
	if b.awaitChange().Ready["id"] {
		t.Error("still ready after two failures")
	}
}

func TestLivenessCondemns(t *testing.T) {
	grace := int64(7)
	b := newBench(t,
		v1.Container{LivenessProbe: &v1.Probe{PeriodSeconds: 5, FailureThreshold: 1, InitialDelaySeconds: 10,
			TerminationGracePeriodSeconds: &grace}})
	b.code.Store(http.StatusNotFound)
	b.tick(10 * time.Second)
	b.awaitProbe()
	u, condemned := b.awaitChange().Unhealthy["id"]
	if !condemned || u.Probe != "liveness" || *u.Grace != 7 {
		t.Errorf("got %+v", u)
	}
}

func TestStartupHoldsTheOthersBack(t *testing.T) {
	b := newBench(t, v1.Container{
		StartupProbe:  &v1.Probe{PeriodSeconds: 5, FailureThreshold: 3},
		LivenessProbe: &v1.Probe{PeriodSeconds: 5, FailureThreshold: 1},
	})
	if b.sync(context.Background(), false).Started["id"] {
		t.Error("started before the probe passed")
	}
	b.awaitProbe()
	if !b.awaitChange().Started["id"] {
		t.Error("not started after the probe passed")
	}
	b.awaitProbe() // the liveness probe's first
}

// The status of a container that started before the kubelet stays until a probe finds otherwise; of another
// run of the container it counts for nothing.
func TestStatusOutlivesTheKubelet(t *testing.T) {
	yes := true
	probe := func() *v1.Probe { return &v1.Probe{PeriodSeconds: 5, FailureThreshold: 2, InitialDelaySeconds: 60} }
	for id, want := range map[string]bool{"docker://id": true, "docker://old": false} {
		b := newBench(t, v1.Container{StartupProbe: probe(), ReadinessProbe: probe()})
		b.manager.Forget(b.pod.UID)
		b.pod.Status = v1.PodStatus{
			Conditions:        []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
			ContainerStatuses: []v1.ContainerStatus{{Name: "c", ContainerID: id, Started: &yes, Ready: true}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		state := b.sync(ctx, false)
		cancel()
		b.manager.Wait()
		if state.Started["id"] != want || state.Ready["id"] != want {
			t.Errorf("status of %s: %+v, want %v", id, state, want)
		}
	}
	b := newBench(t, v1.Container{ReadinessProbe: probe()})
	b.manager.Forget(b.pod.UID)
	b.pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", ContainerID: "docker://id", Started: &yes,
		Ready: true}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if b.sync(ctx, false).Ready["id"] {
		t.Error("ready though the pod's readiness was withdrawn")
	}
}

func TestEventsOfProbes(t *testing.T) {
	var got string
	p := &prober{kind: "Readiness", m: &Manager{Record: func(_ *v1.Pod, _ *v1.Container, kind, reason, message string) {
		got = kind + " " + reason + " " + message
	}}}
	for want, told := range map[string]struct {
		warning string
		err     error
	}{
		"": {},
		"Warning Unhealthy Readiness probe failed: HTTP probe failed with statuscode: 500": {"",
			errors.New("HTTP probe failed with statuscode: 500")},
		"Warning Unhealthy Readiness probe failed: no\n": {"",
			&hooks.ExitError{Code: 1, Output: "no\n"}},
		"Warning Unhealthy Readiness probe errored and resulted in unknown state: no engine": {"",
			&hooks.UnknownError{Err: errors.New("no engine")}},
		"Warning ProbeWarning Readiness probe warning: Probe terminated redirects, Response body: <a>": {"Probe terminated " +
			"redirects, Response body: <a>", nil},
	} {
		got = ""
		if p.tell(told.warning, told.err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// broken is an engine that can't run a command.
type broken struct{ runtime.Streams }

func (broken) Exec(context.Context, string, runtime.ExecOptions) (int, error) {
	return 0, errors.New("no engine")
}

// A probe that can't be tried condemns no container.
func TestUntriedProbesDoNotCount(t *testing.T) {
	p := &prober{
		m: &Manager{
			Runner: &hooks.Runner{Streams: broken{}}, Record: func(*v1.Pod, *v1.Container, string, string, string) {},
		},
		run: &run{}, kind: "Liveness", pod: &v1.Pod{},
		probe: &v1.Probe{FailureThreshold: 1,
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}},
	}
	if p.once(t.Context(), false) || p.run.unhealthy != nil || p.streak != 0 {
		t.Errorf("condemned: %+v after %d", p.run.unhealthy, p.streak)
	}
}

func TestEndingPodsAreNotCondemned(t *testing.T) {
	b := newBench(t, v1.Container{LivenessProbe: &v1.Probe{PeriodSeconds: 5, FailureThreshold: 1}})
	b.code.Store(http.StatusNotFound)
	if state := b.sync(context.Background(), true); len(state.Unhealthy) != 0 {
		t.Errorf("got %+v", state)
	}
}

func TestGonePodsAreNotProbed(t *testing.T) {
	b := newBench(t, v1.Container{ReadinessProbe: &v1.Probe{PeriodSeconds: 5, FailureThreshold: 2}})
	b.manager.Sync(context.Background(), b.pod, &runtime.Pod{}, false, nil)
	b.manager.Wait() // returns: no probe runs any more
}
