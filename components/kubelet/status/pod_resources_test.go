package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestResourcesOfThePod(t *testing.T) {
	list := resourceList
	for name, test := range map[string]struct {
		whole             *v1.ResourceRequirements
		own               v1.ResourceRequirements
		previous          v1.PodStatus
		limits            *cgroups.Limits
		allocated         v1.ResourceList
		requests, bounded v1.ResourceList
	}{
		"nothing": {previous: v1.PodStatus{Phase: v1.PodRunning}, limits: &cgroups.Limits{CPUShares: 2}},
		"not running yet": {
			own:       v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "")},
			allocated: list("1", "1Gi"), requests: list("1", "1Gi"), bounded: list("2", ""),
		},
		"of the containers": {
			own:       v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "2Gi")},
			previous:  v1.PodStatus{Phase: v1.PodRunning},
			limits:    &cgroups.Limits{CPUShares: 1024, CPUQuota: 200000, CPUPeriod: 100000, MemoryBytes: 2 << 30},
			allocated: list("1", "1Gi"), requests: list("1", "1Gi"), bounded: list("2", "2Gi"),
		},
		"of the pod, not carried out yet": {
			whole:     &v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "2Gi")},
			previous:  v1.PodStatus{Phase: v1.PodRunning},
			limits:    &cgroups.Limits{CPUShares: 512, CPUQuota: 100000, CPUPeriod: 100000, MemoryBytes: 1 << 30},
			allocated: list("1", "1Gi"), requests: list("500m", "1Gi"), bounded: list("1", "1Gi"),
		},
		"not known now": {
			whole: &v1.ResourceRequirements{Requests: list("1", "1Gi")}, allocated: list("1", "1Gi"),
			previous: v1.PodStatus{Phase: v1.PodRunning,
				Resources: &v1.ResourceRequirements{Requests: list("500m", "1Gi"), Limits: list("3", "")}},
			requests: list("500m", "1Gi"), bounded: list("3", ""),
		},
	} {
		p := pod("Always", nil, "a")
		p.Spec.Resources, p.Spec.Containers[0].Resources = test.whole, test.own
		s := Compute(&Input{Pod: p, Now: now, Previous: &test.previous, Limits: test.limits,
			Observed: &runtime.Pod{Sandboxes: sandbox, Containers: []runtime.Container{running("a", 0)}}})
		for what, pair := range map[string][2]v1.ResourceList{
			"allocated": {s.AllocatedResources, test.allocated}, "requests": {s.Resources.Requests, test.requests},
			"limits": {s.Resources.Limits, test.bounded},
		} {
			if len(pair[0]) != len(pair[1]) || pair[0].Cpu().Cmp(*pair[1].Cpu()) != 0 ||
				pair[0].Memory().Cmp(*pair[1].Memory()) != 0 {
				t.Errorf("%s: %s: %v, want %v", name, what, pair[0], pair[1])
			}
		}
	}
}
