package spec

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/components/kubelet/cgroups"
)

func TestSwap(t *testing.T) {
	limited := Builder{LimitedSwap: true, MemoryBytes: 1000, SwapBytes: 500}
	critical := int32(criticalPriority)
	for name, test := range map[string]struct {
		builder        Builder
		request, limit string
		priority       *int32
		want           int64
	}{
		"a part of the swap": {builder: limited, request: "200", want: 100},
		"a limit":            {builder: limited, request: "200", limit: "400", want: 100},
		"no swap":            {builder: Builder{MemoryBytes: 1000, SwapBytes: 500}, request: "200"},
		"guaranteed":         {builder: limited, request: "200", limit: "200"},
		"best effort":        {builder: limited},
		"critical":           {builder: limited, request: "200", priority: &critical},
	} {
		t.Run(name, func(t *testing.T) {
			c := v1.Container{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}}
			if test.request != "" {
				c.Resources.Requests[v1.ResourceMemory] = resource.MustParse(test.request)
				c.Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
			}
			if test.limit != "" {
				c.Resources.Limits[v1.ResourceMemory] = resource.MustParse(test.limit)
				c.Resources.Limits[v1.ResourceCPU] = resource.MustParse("1")
			}
			pod := &v1.Pod{Spec: v1.PodSpec{Priority: test.priority, Containers: []v1.Container{c}}}
			test.builder.KillTogether = true
			got := test.builder.ContainerSettings(pod, &pod.Spec.Containers[0])
			if *got.SwapBytes != test.want || !got.KillTogether {
				t.Errorf("got %d, %t, want %d", *got.SwapBytes, got.KillTogether, test.want)
			}
		})
	}
}

// TestProcesses: the pod's control group bounds them, or each container's where there is none.
func TestProcesses(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	for name, test := range map[string]struct {
		tree           cgroups.Tree
		limit          int64
		pod, container int64
	}{
		"a control group": {cgroups.Tree{Mount: "/x"}, 50, 50, 0},
		"none":            {cgroups.Tree{}, 50, 50, 50},
		"no limit":        {cgroups.Tree{Mount: "/x"}, -1, 0, 0},
		"no limit at all": {cgroups.Tree{}, -1, 0, -1},
	} {
		b := Builder{Cgroups: test.tree, PidsLimit: test.limit}
		if got := b.PodLimits(pod).PIDs; got != test.pod {
			t.Errorf("%s: pod %d, want %d", name, got, test.pod)
		}
		if got := b.containerPIDs(); got != test.container {
			t.Errorf("%s: container %d, want %d", name, got, test.container)
		}
	}
}
