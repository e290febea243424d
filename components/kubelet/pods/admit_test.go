package pods

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/sysctls"
)

func TestRefuse(t *testing.T) {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"disk": "ssd"}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("2"), v1.ResourcePods: resource.MustParse("2"),
			"example.com/gpu": resource.MustParse("1"),
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
		"fits": {pod: with(func(*v1.Pod) {})},
		"affinity": {pod: with(func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }),
			want: "NodeAffinity"},
		"other system": {pod: with(func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }),
			want: "PodOSNotSupported"},
		"evicting taint": {pod: with(func(*v1.Pod) {}), taints: taints(v1.TaintEffectNoExecute),
			want: "TaintToleration"},
		"other taint": {pod: with(func(*v1.Pod) {}), taints: taints(v1.TaintEffectNoSchedule)},
		"tolerated": {taints: taints(v1.TaintEffectNoExecute), pod: with(func(p *v1.Pod) {
			p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}}
		})},
		"cpu": {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Resources = asks("cpu", "3") }),
			want: "OutOfcpu"},
		"device": {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Resources = asks("example.com/gpu", "2") }),
			want: "OutOfexample.com/gpu"},
		"of the cluster": {pod: with(func(p *v1.Pod) {
			p.Spec.Containers[0].Resources = asks("example.com/license",
				"2")
		})},
		"too many": {pod: with(func(*v1.Pod) {}), others: []*v1.Pod{{}, {}}, want: "OutOfpods"},
		"port": {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Ports = port }),
			others: []*v1.Pod{with(func(p *v1.Pod) { p.Spec.Containers[0].Ports = port })}, want: "NodePorts"},
		"port of sidecar": {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Ports = port }), want: "NodePorts",
			others: []*v1.Pod{with(func(p *v1.Pod) {
				p.Spec.InitContainers = []v1.Container{{Name: "i", RestartPolicy: &always, Ports: port}}
			})}},
		"port of init": {pod: with(func(p *v1.Pod) { p.Spec.Containers[0].Ports = port }),
			others: []*v1.Pod{with(func(p *v1.Pod) {
				p.Spec.InitContainers = []v1.Container{{Name: "i",
					Ports: port}}
			})}},
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

// The kubelet's copy of its node may be older than the scheduler's.
func TestAffinityIsJudgedByTheNodeAsItIs(t *testing.T) {
	old := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"disk": "ssd"}
	for name, test := range map[string]struct {
		fresh *v1.Node
		err   error
		want  string
	}{
		"labelled meanwhile": {fresh: labelled},
		"still another":      {fresh: old, want: "NodeAffinity"},
		"no answer":          {err: errors.New("no answer"), want: "NodeAffinity"},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(Config{
				Builder: &spec.Builder{}, Recorder: &record.FakeRecorder{}, Node: func() *v1.Node { return old },
				FreshNode: func(context.Context) (*v1.Node, error) { return test.fresh, test.err },
			})
			w := newWorker(m, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"},
				Spec:       v1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}},
			})
			for range 2 { // the second time while it is being fetched
				if w.admit(t.Context()) {
					t.Error("decided before the node was fetched")
				}
			}
			applyResult(t, w)
			got := ""
			if w.state.rejected != nil {
				got = w.state.rejected.reason
			}
			if !w.admit(t.Context()) || got != test.want || w.state.admitted != (test.want == "") {
				t.Errorf("refused for %q, want %q", got, test.want)
			}
		})
	}
}

// The place of a pod that was deleted by force is free at once, for the scheduler as for the kubelet.
func TestPodsThatLeftTheAPIClaimNothing(t *testing.T) {
	m := New(Config{Builder: &spec.Builder{}})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	m.Set(pod)
	m.workers["u"].adopt()
	if got := m.admission.others("other"); len(got) != 1 {
		t.Errorf("%d pods occupy the node, want 1", len(got))
	}
	m.Gone(pod)
	if got := m.admission.others("other"); len(got) != 0 {
		t.Errorf("%d pods occupy the node, want none", len(got))
	}
}

// A setting that would reach beyond the pod ends it before it begins. The status says so, the event only why.
func TestForbiddenSysctls(t *testing.T) {
	allowed, err := sysctls.New([]string{"net.core.somaxconn"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"net.core.somaxconn": "", "kernel.msgmax": "SysctlForbidden"} {
		recorder := record.NewFakeRecorder(1)
		m := New(Config{Builder: &spec.Builder{}, Recorder: recorder, Node: func() *v1.Node { return nil },
			Sysctls: allowed})
		w := newWorker(m, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: v1.PodSpec{
			SecurityContext: &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}},
		}})
		if !w.admit(t.Context()) {
			t.Error("not decided")
		}
		got, s := "", &w.state
		if s.rejected != nil {
			got = s.rejected.reason
			const message = `forbidden sysctl: "kernel.msgmax" not allowlisted`
			if event := <-recorder.Events; event != "Warning SysctlForbidden "+message ||
				s.rejected.statusMessage() != "Pod was rejected: "+message {
				t.Errorf("event %q, status %q", event, s.rejected.statusMessage())
			}
		}
		if got != want || s.admitted != (want == "") {
			t.Errorf("%s: refused for %q, want %q", name, got, want)
		}
	}
}
