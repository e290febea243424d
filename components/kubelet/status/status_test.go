package status

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

var (
	now     = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	sandbox = []runtime.Sandbox{{ID: "s", State: runtime.Running, IPs: []string{"10.0.0.5"}}}
)

func running(name string, attempt int) runtime.Container {
	return runtime.Container{ID: name + "-run", Name: name, SandboxID: "s", Attempt: attempt, State: runtime.Running,
		Started: now}
}

func exited(name string, attempt, code int) runtime.Container {
	return runtime.Container{ID: name + "-end", Name: name, SandboxID: "s", Attempt: attempt, State: runtime.Exited,
		ExitCode: code, Started: now, Finished: now}
}

func pod(policy v1.RestartPolicy, init []string, names ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Generation: 3},
		Spec: v1.PodSpec{RestartPolicy: policy}}
	for _, name := range init {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: name})
	}
	for _, name := range names {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name})
	}
	return p
}

func summary(cs v1.ContainerStatus) string {
	switch {
	case cs.State.Running != nil:
		return "running"
	case cs.State.Waiting != nil:
		return cs.State.Waiting.Reason
	case cs.State.Terminated != nil:
		return cs.State.Terminated.Reason
	}
	return ""
}

func TestCompute(t *testing.T) {
	all := map[string]bool{"a-run": true, "b-run": true, "i-run": true}
	oom := exited("a", 0, 137)
	oom.OOMKilled = true
	failed := exited("a", 0, 127)
	failed.StartErr = "no such file"
	sidecar := pod(v1.RestartPolicyAlways, []string{"i"}, "a")
	always := v1.ContainerRestartPolicyAlways
	sidecar.Spec.InitContainers[0].RestartPolicy = &always
	for name, test := range map[string]struct {
		in         Input
		phase      v1.PodPhase
		containers []string // init containers first
		ready      string   // reason why not, "" if ready
	}{
		"nothing yet": {
			in:    Input{Pod: pod("Always", nil, "a")},
			phase: v1.PodPending, containers: []string{"ContainerCreating"}, ready: "ContainersNotReady",
		},
		"before init": {
			in:    Input{Pod: pod("Always", []string{"i"}, "a")},
			phase: v1.PodPending, containers: []string{"PodInitializing", "PodInitializing"},
			ready: "ContainersNotReady",
		},
		"init runs": {
			in: Input{Pod: pod("Always", []string{"i"}, "a"),
				Observed: &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{running("i", 0)}}},
			phase: v1.PodPending, containers: []string{"running", "PodInitializing"}, ready: "ContainersNotReady",
		},
		"running": {
			in: Input{Pod: pod("Always", []string{"i"}, "a"),
				Observed: &runtime.Pod{Sandboxes: sandbox,
					Containers: []runtime.Container{running("a", 0), exited("i", 0, 0)}}},
			phase: v1.PodRunning, containers: []string{"Completed", "running"},
		},
		"sidecar and container": {
			in: Input{Pod: sidecar,
				Observed: &runtime.Pod{Sandboxes: sandbox,
					Containers: []runtime.Container{running("a", 0), running("i", 0)}}},
			phase: v1.PodRunning, containers: []string{"running", "running"},
		},
		"one of two runs": {
			in: Input{Pod: pod("Always", nil, "a", "b"),
				Observed: &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{running("a", 0)}}},
			phase: v1.PodPending, containers: []string{"running", "ContainerCreating"}, ready: "ContainersNotReady",
		},
		"start is not complete": {
			in: Input{Pod: pod("Always", nil, "a"), Starting: map[string]bool{"a": true},
				Observed: &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{running("a", 0)}}},
			phase: v1.PodPending, containers: []string{"ContainerCreating"}, ready: "ContainersNotReady",
		},
		"back-off": {
			in: Input{Pod: pod("Always", nil, "a"), Waiting: map[string]plan.Waiting{"a": {Reason: "CrashLoopBackOff"}},
				Observed: &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{exited("a", 1, 1)}}},
			phase: v1.PodRunning, containers: []string{"CrashLoopBackOff"}, ready: "ContainersNotReady",
		},
		"no image": {
			in: Input{Pod: pod("Always", nil, "a"), Waiting: map[string]plan.Waiting{"a": {Reason: "ErrImagePull"}},
				Observed: &runtime.Pod{Sandboxes: sandbox}},
			phase: v1.PodPending, containers: []string{"ErrImagePull"}, ready: "ContainersNotReady",
		},
		"exited, to be restarted": {
			in: Input{Pod: pod("Always", nil, "a"),
				Observed: &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{exited("a", 0, 1)}}},
			phase: v1.PodRunning, containers: []string{"Error"}, ready: "ContainersNotReady",
		},
		"succeeded": {
			in: Input{Pod: pod("Never", nil, "a"), Done: true,
				Observed: &runtime.Pod{Containers: []runtime.Container{exited("a", 0, 0)}}},
			phase: v1.PodSucceeded, containers: []string{"Completed"}, ready: "PodCompleted",
		},
		"failed": {
			in: Input{Pod: pod("Never", nil, "a", "b"), Done: true,
				Observed: &runtime.Pod{Containers: []runtime.Container{exited("a", 0, 0), exited("b", 0, 2)}}},
			phase: v1.PodFailed, containers: []string{"Completed", "Error"}, ready: "PodFailed",
		},
		"init failed": {
			in: Input{Pod: pod("Never", []string{"i"}, "a"), Done: true,
				Observed: &runtime.Pod{Containers: []runtime.Container{exited("i", 0, 2)}}},
			phase: v1.PodFailed, containers: []string{"Error", "PodInitializing"}, ready: "PodFailed",
		},
		"out of memory": {
			in: Input{Pod: pod("Never", nil, "a"), Done: true,
				Observed: &runtime.Pod{Containers: []runtime.Container{oom}}},
			phase: v1.PodFailed, containers: []string{"OOMKilled"}, ready: "PodFailed",
		},
		"could not start": {
			in: Input{Pod: pod("Never", nil, "a"), Done: true,
				Observed: &runtime.Pod{Containers: []runtime.Container{failed}}},
			phase: v1.PodFailed, containers: []string{"StartError"}, ready: "PodFailed",
		},
		"stopped by the node": {
			in: Input{Pod: pod("Always", nil, "a"), Done: true, Reason: "Evicted",
				Observed: &runtime.Pod{Containers: []runtime.Container{exited("a", 0, 0)}}},
			phase: v1.PodFailed, containers: []string{"Completed"}, ready: "PodFailed",
		},
		"final phases stay": {
			in: Input{Pod: pod("Always", nil,
				"a"), Previous: &v1.PodStatus{Phase: v1.PodSucceeded, Conditions: []v1.PodCondition{{Type: v1.PodReady,
				Status: v1.ConditionFalse, Reason: "PodCompleted"}},
				ContainerStatuses: []v1.ContainerStatus{{Name: "a",
					State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed"}}}}}},
			phase: v1.PodSucceeded, containers: []string{"Completed"}, ready: "PodCompleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := test.in
			in.Now, in.Started, in.Ready, in.Runtime = now, all, all, "docker"
			if in.Observed == nil {
				in.Observed = &runtime.Pod{}
			}
			s := Compute(&in)
			if s.Phase != test.phase {
				t.Errorf("phase %s, want %s", s.Phase, test.phase)
			}
			statuses := append(append([]v1.ContainerStatus{}, s.InitContainerStatuses...), s.ContainerStatuses...)
			for i, want := range test.containers {
				if got := summary(statuses[i]); got != want {
					t.Errorf("container %s is %q, want %q", statuses[i].Name, got, want)
				}
			}
			ready := find(s.Conditions, v1.PodReady)
			if ready == nil || ready.Reason != test.ready || (ready.Status == v1.ConditionTrue) != (test.ready == "") {
				t.Errorf("Ready is %+v, want reason %q", ready, test.ready)
			}
			if s.ObservedGeneration != 3 {
				t.Errorf("observed generation %d", s.ObservedGeneration)
			}
		})
	}
}

func TestHistoryOfAContainer(t *testing.T) {
	in := &Input{
		Pod: pod("Always", nil, "a"), Now: now, Runtime: "docker", Started: map[string]bool{"a-run": true},
		Ready:    map[string]bool{},
		Observed: &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{running("a", 4), exited("a", 3, 9)}},
		Messages: map[string]string{"a-end": "last words"},
	}
	cs := Compute(in).ContainerStatuses[0]
	last := cs.LastTerminationState.Terminated
	if cs.RestartCount != 4 || last == nil || last.ExitCode != 9 || last.Message != "last words" ||
		last.ContainerID != "docker://a-end" {
		t.Errorf("got %+v, last %+v", cs, last)
	}
	if !*cs.Started || cs.Ready {
		t.Errorf("started %v, ready %v: only the startup probe passed", *cs.Started, cs.Ready)
	}
}

func TestAddressesAndTimesLiveOn(t *testing.T) {
	in := &Input{Pod: pod("Always", nil, "a"), Now: now, HostIPs: []string{"1.2.3.4"},
		Observed: &runtime.Pod{Sandboxes: sandbox}}
	first := Compute(in)
	if first.PodIP != "10.0.0.5" || first.HostIP != "1.2.3.4" || len(first.PodIPs) != 1 || len(first.HostIPs) != 1 {
		t.Errorf("got %+v", first)
	}
	in.Previous, in.Now, in.Observed = &first, now.Add(time.Hour), &runtime.Pod{}
	second := Compute(in)
	if second.PodIP != "10.0.0.5" || !second.StartTime.Equal(first.StartTime) {
		t.Errorf("address or start time was lost: %+v", second)
	}
	if a, b := find(first.Conditions, v1.PodReady), find(second.Conditions,
		v1.PodReady); !a.LastTransitionTime.Equal(&b.LastTransitionTime) {
		t.Error("a condition that did not change has another time")
	}
	if a, b := find(first.Conditions, v1.PodReadyToStartContainers), find(second.Conditions,
		v1.PodReadyToStartContainers); a.LastTransitionTime.Equal(&b.LastTransitionTime) {
		t.Error("a condition that changed has the same time")
	}
}

func TestReadinessGates(t *testing.T) {
	p := pod("Always", nil, "a")
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "gate"}}
	in := &Input{
		Pod: p, Now: now, Started: map[string]bool{"a-run": true}, Ready: map[string]bool{"a-run": true},
		Observed: &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{running("a", 0)}},
	}
	if c := find(Compute(in).Conditions, v1.PodReady); c.Reason != "ReadinessGatesNotReady" {
		t.Errorf("without the condition: %+v", c)
	}
	in.Previous = &v1.PodStatus{Conditions: []v1.PodCondition{{Type: "gate", Status: v1.ConditionTrue}}}
	s := Compute(in)
	if c := find(s.Conditions, v1.PodReady); c.Status != v1.ConditionTrue {
		t.Errorf("with the condition: %+v", c)
	}
	if find(s.Conditions, "gate") == nil {
		t.Error("the condition of another was dropped")
	}
}

// resourceList is a list of what isn't empty.
func resourceList(cpu, memory string) v1.ResourceList {
	l := v1.ResourceList{}
	if cpu != "" {
		l[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func TestQOS(t *testing.T) {
	list := resourceList
	for name, test := range map[string]struct {
		requests, limits v1.ResourceList
		want             v1.PodQOSClass
	}{
		"nothing":          {nil, nil, v1.PodQOSBestEffort},
		"equal":            {list("1", "1Gi"), list("1", "1Gi"), v1.PodQOSGuaranteed},
		"limits only":      {nil, list("1", "1Gi"), v1.PodQOSGuaranteed},
		"requests only":    {list("1", "1Gi"), nil, v1.PodQOSBurstable},
		"different":        {list("1", "1Gi"), list("2", "1Gi"), v1.PodQOSBurstable},
		"one of them only": {nil, list("1", ""), v1.PodQOSBurstable},
	} {
		p := pod("Always", nil, "a")
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: test.requests, Limits: test.limits}
		if got := QOS(p); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestStopSignal: the signal that stops a container is told where the feature is on, and the engine tells it.
func TestStopSignal(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, nil, "c")
	for _, test := range []struct {
		on         bool
		signal     string
		wantSignal string
	}{{true, "SIGUSR1", "SIGUSR1"}, {true, "", ""}, {false, "SIGUSR1", ""}} {
		run := running("c", 0)
		run.StopSignal = test.signal
		s := Compute(&Input{Pod: p, Observed: &runtime.Pod{Containers: []runtime.Container{run}}, Now: time.Unix(9, 0),
			StopSignals: test.on})
		got := ""
		if signal := s.ContainerStatuses[0].StopSignal; signal != nil {
			got = string(*signal)
		}
		if got != test.wantSignal {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
