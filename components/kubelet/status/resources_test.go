package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestActualResources(t *testing.T) {
	list := resourceList
	for name, c := range map[string]struct {
		has            runtime.Resources
		promised, want v1.ResourceRequirements
	}{
		"as promised": {
			runtime.Resources{CPUShares: 102, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryBytes: 64 << 20},
			v1.ResourceRequirements{Requests: list("0.1", "32Mi"), Limits: list("0.5", "64Mi")},
			v1.ResourceRequirements{Requests: list("100m", "32Mi"), Limits: list("500m", "64Mi")},
		},
		"not carried out yet": {
			runtime.Resources{CPUShares: 102, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryBytes: 64 << 20},
			v1.ResourceRequirements{Requests: list("200m", "48Mi"), Limits: list("1", "128Mi")},
			v1.ResourceRequirements{Requests: list("100m", "48Mi"), Limits: list("500m", "64Mi")},
		},
		"too little to tell": {
			runtime.Resources{CPUShares: 2, CPUQuota: 1000, CPUPeriod: 100_000},
			v1.ResourceRequirements{Requests: list("1m", ""), Limits: list("5m", "")},
			v1.ResourceRequirements{Requests: list("1m", ""), Limits: list("5m", "")},
		},
		"nothing promised": {runtime.Resources{CPUShares: 2}, v1.ResourceRequirements{}, v1.ResourceRequirements{}},
	} {
		got := c.promised.DeepCopy()
		actual(c.has, got)
		for i, pair := range [][2]v1.ResourceList{{got.Requests, c.want.Requests}, {got.Limits, c.want.Limits}} {
			if len(pair[0]) != len(pair[1]) || pair[0].Cpu().Cmp(*pair[1].Cpu()) != 0 ||
				pair[0].Memory().Cmp(*pair[1].Memory()) != 0 {
				t.Errorf("%s: list %d is %v, want %v", name, i, pair[0], pair[1])
			}
		}
	}
}
