package pods

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRefuse(t *testing.T) {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"disk": "ssd"}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("2"), v1.ResourcePods: resource.MustParse("2"), "example.com/gpu": resource.MustParse("1"),
		}},
	}
	always := v1.ContainerRestartPolicyAlways
	port := []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: v1.ProtocolTCP}}
	asks := func(name v1.ResourceName, much string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: v1.ResourceList{name: resource.MustParse(much)}}
	}
	with := func(change func(*v1.Pod)) *v1.Pod {
		p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
		change(p)
		return p
	}
	taints := func(effect v1.TaintEffect) []v1.Taint { return []v1.Taint{{Key: "k", Effect: effect}} }
	for name, test := range map[string]struct {
		taints []v1.Taint
		pod    *v1.Pod
		others []*v1.Pod
		want   string
	}{
		"fits":           {pod: with(func(*v1.Pod) {})},
		"affinity":       {pod: with(func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }), want: "NodeAffinity"},
		"other system":   {pod: with(func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }), want: "PodOSNotSupported"},
		"evicting taint": {pod: with(func(*v1.Pod) {}), taints: taints(v1.TaintEffectNoExecute), want: "TaintToleration"},
		"other taint":    {pod: with(func(*v1.Pod) {}), taints: taints(v1.TaintEffectNoSchedule)},
		"tolerated": {taints: taints(v1.TaintEffectNoExecute), pod: with(func(p *v1.Pod) {
			p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}}
		})},
		"cpu":            {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Resources = asks("cpu", "3") }), want: "OutOfcpu"},
		"device":         {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Resources = asks("example.com/gpu", "2") }), want: "OutOfexample.com/gpu"},
		"of the cluster": {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Resources = asks("example.com/license", "2") })},
		"too many":       {pod: with(func(*v1.Pod) {}), others: []*v1.Pod{{}, {}}, want: "OutOfpods"},
		"port":           {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Ports = port }), others: []*v1.Pod{with(func(p *v1.Pod) { p.Spec.Containers[0].Ports = port })}, want: "NodePorts"},
		"port of sidecar": {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Ports = port }), want: "NodePorts", others: []*v1.Pod{with(func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "i", RestartPolicy: &always, Ports: port}}
		})}},
		"port of init": {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Ports = port }), others: []*v1.Pod{with(func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Name: "i", Ports: port}} })}},
	} {
		t.Run(name, func(t *testing.T) {
			n := node.DeepCopy()
			n.Spec.Taints = test.taints
			got := ""
			if why := refuse(test.pod, n, test.others); why != nil {
				got = why.reason
			}
			if got != test.want {
				t.Errorf("refused for %q, want %q", got, test.want)
			}
		})
	}
}
