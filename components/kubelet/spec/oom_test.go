package spec

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestOOMScore(t *testing.T) {
	memory := func(much string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(much)}}
	}
	sidecar := v1.Container{Name: "s", Resources: memory("10"), RestartPolicy: new(v1.ContainerRestartPolicyAlways)}
	whole := memory("700")
	both := []v1.Container{{Name: "a", Resources: memory("300")}, {Name: "b", Resources: memory("200")}}
	for name, test := range map[string]struct {
		pod  v1.PodSpec
		want int // of a
		side int // of s, if there is one
	}{
		"asks for nothing":    {pod: v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}, want: 1000},
		"by what it asks for": {pod: v1.PodSpec{Containers: both}, want: 700},
		"asks for very little": {pod: v1.PodSpec{Containers: []v1.Container{{Name: "a", Resources: memory("100m")}}},
			want: 999},
		"asks for all": {pod: v1.PodSpec{Containers: []v1.Container{{Name: "a", Resources: memory("1000")}}},
			want: 3},
		"of the cluster": {
			pod: v1.PodSpec{Containers: both, Priority: new(int32(2000000000)),
				PriorityClassName: "system-cluster-critical"}, want: 700,
		},
		"of the node": {
			pod: v1.PodSpec{Containers: both, Priority: new(int32(2000001000)),
				PriorityClassName: "system-node-critical"}, want: -997,
		},
		"shares": {pod: v1.PodSpec{Containers: both, Resources: &whole}, want: 600},
		"beside sidecar": {pod: v1.PodSpec{Containers: both, InitContainers: []v1.Container{sidecar}},
			want: 700, side: 800},
		"shares with a sidecar": {
			pod:  v1.PodSpec{Containers: both, InitContainers: []v1.Container{sidecar}, Resources: &whole},
			want: 637, side: 737,
		},
	} {
		p := &v1.Pod{Spec: test.pod}
		if got := oomScore(p, &p.Spec.Containers[0], 1000); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
		if len(p.Spec.InitContainers) == 0 {
			continue
		}
		if got := oomScore(p, &p.Spec.InitContainers[0], 1000); got != test.side {
			t.Errorf("%s: the sidecar got %d, want %d", name, got, test.side)
		}
	}
}
