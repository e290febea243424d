package plan

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestResizes(t *testing.T) {
	has := runtime.Resources{CPUShares: 102, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryBytes: 64 << 20}
	with := func(change func(r *runtime.Resources)) runtime.Resources {
		r := has
		change(&r)
		return r
	}
	restartFor := func(names ...v1.ResourceName) []v1.ContainerResizePolicy {
		var out []v1.ContainerResizePolicy
		for _, name := range names {
			out = append(out, v1.ContainerResizePolicy{ResourceName: name, RestartPolicy: v1.RestartContainer})
		}
		return out
	}
	for name, c := range map[string]struct {
		want            runtime.Resources
		policy          []v1.ContainerResizePolicy
		request         string
		resize, restart bool
	}{
		"same":              {want: has},
		"same share of CPU": {want: with(func(r *runtime.Resources) { r.CPUQuota, r.CPUPeriod = 25_000, 50_000 })},
		"CPU":               {want: with(func(r *runtime.Resources) { r.CPUQuota = 60_000 }), resize: true},
		"shares":            {want: with(func(r *runtime.Resources) { r.CPUShares = 204 }), resize: true},
		"CPU by restart": {want: with(func(r *runtime.Resources) { r.CPUShares = 204 }),
			policy: restartFor(v1.ResourceCPU), resize: true, restart: true},
		"CPU, memory by restart": {want: with(func(r *runtime.Resources) { r.CPUShares = 204 }),
			policy: restartFor(v1.ResourceMemory), resize: true},
		"memory": {want: with(func(r *runtime.Resources) { r.MemoryBytes *= 2 }),
			policy: restartFor(v1.ResourceCPU), resize: true},
		"memory by restart": {want: with(func(r *runtime.Resources) { r.MemoryBytes *= 2 }),
			policy: restartFor(v1.ResourceMemory), resize: true, restart: true},
		"request of memory": {want: has, request: "48Mi"},
		"memory request by restart": {want: has, request: "48Mi", policy: restartFor(v1.ResourceMemory), resize: true,
			restart: true},
	} {
		container := &v1.Container{Name: "c", ResizePolicy: c.policy}
		container.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("32Mi")}
		if c.request != "" {
			container.Resources.Requests[v1.ResourceMemory] = resource.MustParse(c.request)
		}
		run := &runtime.Container{Name: "c", Resources: has, MemoryRequest: 32 << 20}
		resize, restart := Resizes(container, run, map[string]runtime.Resources{"c": c.want})
		if resize != c.resize || restart != c.restart {
			t.Errorf("%s: %v, by restart %v", name, resize, restart)
		}
	}
	if resize, restart := Resizes(&v1.Container{Name: "c"}, &runtime.Container{}, nil); resize || restart {
		t.Error("a container that nothing is known of is resized")
	}
}

// TestResizeIsPlanned: once, again after a failure, and by another run where the policy asks for it, also of a
// container that would not be started again.
func TestResizeIsPlanned(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "c"}}}}
	c := &pod.Spec.Containers[0]
	run := runtime.Container{ID: "1", Name: "c", SandboxID: "s", State: runtime.Running, Hash: Hash(c),
		Resources: runtime.Resources{CPUShares: 2}}
	in := &Input{
		Pod: pod, Now: now, Observed: &runtime.Pod{Sandboxes: []runtime.Sandbox{{ID: "s", State: runtime.Running}},
			Containers: []runtime.Container{run}},
		Resources: map[string]runtime.Resources{"c": {CPUShares: 4}},
		Limits:    Limits{Initial: time.Hour, Max: time.Hour},
	}
	if p := Compute(in); len(p.Actions) != 1 || p.Actions[0].Kind != ResizeContainer || p.Actions[0].ID != "1" ||
		p.Actions[0].Resources.CPUShares != 4 {
		t.Errorf("planned %+v", p.Actions)
	}
	in.Resizing = map[string]time.Time{"1": {}}
	if p := Compute(in); len(p.Actions) != 0 || !p.WakeAt.IsZero() {
		t.Errorf("under way: %+v, again at %v", p.Actions, p.WakeAt)
	}
	in.Resizing["1"] = now.Add(time.Second)
	if p := Compute(in); len(p.Actions) != 0 || !p.WakeAt.Equal(now.Add(time.Second)) {
		t.Errorf("after a failure: %+v, again at %v", p.Actions, p.WakeAt)
	}
	in.Resizing["1"] = now
	if p := Compute(in); len(p.Actions) != 1 {
		t.Errorf("later: %+v", p.Actions)
	}

	c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}}
	p := Compute(in)
	if len(p.Actions) != 1 || p.Actions[0].Kind != StopContainer || !slices.Equal(p.Renewed, []string{"1"}) {
		t.Fatalf("by another run: %+v, renewed %v", p.Actions, p.Renewed)
	}
	ended := &in.Observed.Containers[0]
	ended.State, ended.Finished = runtime.Exited, now
	if p := Compute(in); !p.Finished {
		t.Errorf("a container that ended well by itself is started: %+v", p.Actions)
	}
	in.Renewed = map[string]bool{"1": true}
	in.Backoff = map[string]Backoff{"c": {Delay: time.Hour, Used: now}}
	if p := Compute(in); len(p.Actions) != 1 || p.Actions[0].Kind != StartContainer || p.Actions[0].Attempt != 1 ||
		len(p.Backoff) != 0 {
		t.Errorf("one that was stopped for it is not started at once: %+v", p)
	}
}
