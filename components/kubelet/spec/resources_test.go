package spec

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/runtime"
)

func amounts(cpu, memory string) v1.ResourceList {
	list := v1.ResourceList{}
	if cpu != "" {
		list[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

func TestPodLimits(t *testing.T) {
	bounded := v1.ResourceRequirements{Requests: amounts("250m", "1Mi"), Limits: amounts("500m", "2Mi")}
	requests := v1.ResourceRequirements{Requests: amounts("250m", "1Mi")}
	for name, test := range map[string]struct {
		containers []v1.ResourceRequirements
		whole      *v1.ResourceRequirements
		want       cgroups.Limits
	}{
		"best effort": {containers: []v1.ResourceRequirements{{}}, want: cgroups.Limits{CPUShares: 2}},
		"all bounded": {containers: []v1.ResourceRequirements{bounded, bounded},
			want: cgroups.Limits{CPUShares: 512, CPUQuota: 100000, CPUPeriod: 100000, MemoryBytes: 4 << 20}},
		"one is not": {containers: []v1.ResourceRequirements{bounded, requests}, want: cgroups.Limits{CPUShares: 512}},
		"the pod is": {
			containers: []v1.ResourceRequirements{bounded, requests},
			whole:      &v1.ResourceRequirements{Requests: amounts("1", "4Mi"), Limits: amounts("2", "8Mi")},
			want:       cgroups.Limits{CPUShares: 1024, CPUQuota: 200000, CPUPeriod: 100000, MemoryBytes: 8 << 20},
		},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Resources: test.whole}}
		for _, r := range test.containers {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: r})
		}
		b := &Builder{CPUQuota: true, CPUPeriod: 100 * time.Millisecond}
		if got := b.PodLimits(pod); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// A container without limits has its pod's.
func TestResourcesOfThePod(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		Resources:  &v1.ResourceRequirements{Limits: amounts("500m", "8Mi")},
		Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: amounts("", "2Mi")}}},
	}}
	b := &Builder{CPUQuota: true, CPUPeriod: 100 * time.Millisecond}
	want := runtime.Resources{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, MemoryBytes: 2 << 20}
	if got := b.Resources(pod, &pod.Spec.Containers[0]); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
