package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// During RestartAllContainers the pod is running, and no container is reported as terminated for good.
func TestAllContainersRestarting(t *testing.T) {
	p := pod(v1.RestartPolicyNever, []string{"i"}, "a", "b")
	p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action: v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
			Values: []int32{42}},
	}}
	observed := &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{exited("i", 0, 0), exited("a", 0, 42),
		exited("b", 0, 137)}}
	in := &Input{
		Pod: p, Now: now, Runtime: "docker", Observed: observed,
		RestartAll: map[string]bool{"i-end": true, "a-end": true, "b-end": true}, Restarting: true,
	}
	s := Compute(in)
	if s.Phase != v1.PodRunning {
		t.Errorf("phase %s", s.Phase)
	}
	for _, cs := range append(s.ContainerStatuses, s.InitContainerStatuses...) {
		if last := cs.LastTerminationState.Terminated; last == nil || last.Reason != "RestartingAllContainers" ||
			last.ExitCode != 137 {
			t.Errorf("%s ended: %+v", cs.Name, last)
		}
		if got := summary(cs); got != "RestartingAllContainers" || cs.RestartCount != 1 {
			t.Errorf("%s is %s, %d", cs.Name, got, cs.RestartCount)
		}
	}
	for kind, want := range map[v1.PodConditionType]v1.ConditionStatus{v1.PodInitialized: v1.ConditionTrue,
		v1.AllContainersRestarting: v1.ConditionTrue} {
		if c := find(s.Conditions, kind); c == nil || c.Status != want {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	// From when the first runs the others wait as those of any pod do.
	observed.Containers = append([]runtime.Container{running("i", 1)}, observed.Containers...)
	in.Restarting, in.Previous = false, &s
	in.Waiting = map[string]plan.Waiting{"b": {Reason: "ErrImagePull"}}
	s = Compute(in)
	for i, want := range []string{"PodInitializing", "ErrImagePull"} {
		cs := s.ContainerStatuses[i]
		if last := cs.LastTerminationState.Terminated; summary(cs) != want || cs.RestartCount != 1 || last == nil ||
			last.Reason != "RestartingAllContainers" {
			t.Errorf("%s afterwards: %+v", cs.Name, cs)
		}
	}
	if summary(s.InitContainerStatuses[0]) != "running" || s.Phase != v1.PodRunning {
		t.Errorf("afterwards: %s, %+v", s.Phase, s.InitContainerStatuses)
	}
	if c := find(s.Conditions, v1.AllContainersRestarting); c == nil || c.Status != v1.ConditionFalse {
		t.Errorf("afterwards: %+v", c)
	}
	p.Spec.Containers[0].RestartPolicyRules = nil
	in.Previous = nil
	s = Compute(in)
	if c := find(s.Conditions, v1.AllContainersRestarting); c != nil {
		t.Errorf("of a pod without such a rule: %+v", c)
	}
}

// A pod that was initialized once stays so, though an init container runs once more before any other did.
func TestInitializedForGood(t *testing.T) {
	in := &Input{
		Pod: pod(v1.RestartPolicyAlways, []string{"i"}, "a"), Now: now, Runtime: "docker",
		Observed: &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{running("i", 1)}},
	}
	for _, was := range []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionTrue} {
		in.Previous = &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodInitialized, Status: was}}}
		s := Compute(in)
		if c := find(s.Conditions, v1.PodInitialized); c == nil || c.Status != was || s.Phase != v1.PodPending {
			t.Errorf("it was %s: %s, %+v", was, s.Phase, c)
		}
	}
}
