package hollow

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/runtimetest"
)

func TestContract(t *testing.T) {
	e := New(Options{Clock: clock.RealClock{}, CPUs: 1, MemoryBytes: 1 << 30})
	spare := [2]string{"spare:1", "spare:2"}
	for _, ref := range spare {
		if _, err := e.Pull(t.Context(), ref, runtime.Credential{}); err != nil {
			t.Fatal(err)
		}
	}
	runtimetest.Run(t, runtimetest.Subject{
		Engine: e, PauseImage: "pause", Image: "image", PodCIDRs: []string{"10.1.0.0/24"}, Spare: spare,
	})
}

func start(t *testing.T, e *Engine, annotations map[string]string) string {
	t.Helper()
	pod := runtime.PodRef{UID: "uid", Namespace: "ns", Name: "pod"}
	sandbox, err := e.CreateSandbox(t.Context(), &runtime.SandboxSpec{Pod: pod})
	if err != nil {
		t.Fatal(err)
	}
	id, err := e.CreateContainer(t.Context(), &runtime.ContainerSpec{Pod: pod, Name: "c", SandboxID: sandbox,
		Annotations: annotations})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestScriptEndsContainers(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	e := New(Options{Clock: now})
	if err := e.SetPodCIDRs(t.Context(), []string{"10.1.0.0/24"}); err != nil {
		t.Fatal(err)
	}
	start(t, e, map[string]string{RunFor: "5s", ExitCode: "7"})
	events, err := e.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now.Step(5 * time.Second)
	<-events
	pod, err := e.Pod(t.Context(), "uid")
	if err != nil {
		t.Fatal(err)
	}
	c := pod.Container("c")
	if c.State != runtime.Exited || c.ExitCode != 7 || c.Finished.Sub(c.Started) != 5*time.Second {
		t.Errorf("got %+v", c)
	}
}

func TestBadScriptsAreNamed(t *testing.T) {
	e := New(Options{Clock: clock.RealClock{}})
	for _, annotations := range []map[string]string{{RunFor: "soon"}, {RunFor: "-1s"}, {ExitCode: "x"}, {CPU: "much"},
		{CPU: "0"}, {Memory: "-1"}} {
		_, err := e.CreateContainer(t.Context(), &runtime.ContainerSpec{Annotations: annotations})
		if err == nil || !strings.Contains(err.Error(), "hollow.quintet.dev/") {
			t.Errorf("%v: %v", annotations, err)
		}
	}
}

func TestAddressesAreReused(t *testing.T) {
	e := New(Options{Clock: clock.RealClock{}})
	if _, err := e.CreateSandbox(t.Context(), &runtime.SandboxSpec{}); err == nil {
		t.Error("a sandbox got an address without a range")
	}
	if err := e.SetPodCIDRs(t.Context(), []string{"10.1.0.0/29"}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for {
		sandbox, err := e.CreateSandbox(t.Context(), &runtime.SandboxSpec{Pod: runtime.PodRef{UID: "uid"}})
		if err != nil {
			break
		}
		ids = append(ids, sandbox)
	}
	if len(ids) < 5 {
		t.Fatalf("only %d addresses in a /29", len(ids))
	}
	if err := e.Remove(t.Context(), ids[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateSandbox(t.Context(), &runtime.SandboxSpec{Pod: runtime.PodRef{UID: "uid"}}); err != nil {
		t.Errorf("a freed address is not given again: %v", err)
	}
}

func TestBothFamilies(t *testing.T) {
	e := New(Options{Clock: clock.RealClock{}})
	if err := e.SetPodCIDRs(t.Context(), []string{"fd00::/120", "10.1.0.0/30"}); err != nil {
		t.Fatal(err)
	}
	ports := []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	for _, uid := range []types.UID{"a", "b"} { // the range of IPv4 has no address for a third
		if _, err := e.CreateSandbox(t.Context(),
			&runtime.SandboxSpec{Pod: runtime.PodRef{UID: uid}, Ports: ports}); err != nil {
			t.Fatal(err)
		}
	}
	pod, err := e.Pod(t.Context(), "a")
	if err != nil || !slices.Equal(pod.Sandbox().IPs, []string{"fd00::2", "10.1.0.2"}) ||
		len(pod.Sandbox().Ports) != 1 {
		t.Errorf("%+v, %v", pod, err)
	}
	for range 300 { // no address of the other family is lost
		if _, err := e.CreateSandbox(t.Context(), &runtime.SandboxSpec{Pod: runtime.PodRef{UID: "c"}}); err == nil {
			t.Fatal("a sandbox got addresses where one family has none")
		}
	}
	if err := e.Remove(t.Context(), pod.Sandbox().ID); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateSandbox(t.Context(), &runtime.SandboxSpec{Pod: runtime.PodRef{UID: "c"}}); err != nil {
		t.Errorf("addresses are not given again: %v", err)
	}
}
