package endpoints

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func service(change func(*v1.Service)) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Labels: map[string]string{"team": "a"}},
		Spec: v1.ServiceSpec{ClusterIP: "10.0.0.1", Selector: map[string]string{"app": "web"}, Ports: []v1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromString("web"), Protocol: v1.ProtocolTCP},
			{Name: "admin", Port: 81, TargetPort: intstr.FromInt32(9), Protocol: v1.ProtocolTCP},
		}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func pod(ip string, ready bool, port int32) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: ip, UID: types.UID(ip)},
		Spec: v1.PodSpec{NodeName: "n1",
			Containers: []v1.Container{{Ports: []v1.ContainerPort{{Name: "web", ContainerPort: port,
				Protocol: v1.ProtocolTCP}}}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: ip, PodIPs: []v1.PodIP{{IP: ip}}},
	}
	if ready {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	return p
}

// show renders subsets as ready|unready:ports.
func show(subsets []v1.EndpointSubset) string {
	text := ""
	for _, s := range subsets {
		for _, a := range s.Addresses {
			text += a.IP + " "
		}
		text += "|"
		for _, a := range s.NotReadyAddresses {
			text += " " + a.IP
		}
		for _, p := range s.Ports {
			text += fmt.Sprintf(" %s=%d", p.Name, p.Port)
		}
		text += ";"
	}
	return text
}

func TestSubsets(t *testing.T) {
	terminating := pod("10.1.0.9", true, 8080)
	terminating.DeletionTimestamp = &metav1.Time{}
	failed := pod("10.1.0.8", true, 8080)
	failed.Status.Phase = v1.PodFailed
	homeless := pod("", true, 8080)
	homeless.Status.PodIPs = nil
	for name, tc := range map[string]struct {
		service *v1.Service
		pods    []*v1.Pod
		want    string
	}{
		"none": {service(nil), nil, ""},
		"ready and not": {service(nil), []*v1.Pod{pod("10.1.0.2", true, 8080), pod("10.1.0.1", false, 8080)},
			"10.1.0.2 | 10.1.0.1 admin=9 http=8080;"},
		"sorted": {service(nil), []*v1.Pod{pod("10.1.0.2", true, 8080), pod("10.1.0.1", true, 8080)},
			"10.1.0.1 10.1.0.2 | admin=9 http=8080;"},
		"other ports": {service(nil), []*v1.Pod{pod("10.1.0.2", true, 8080), pod("10.1.0.1", true, 8081)},
			"10.1.0.2 | admin=9 http=8080;10.1.0.1 | admin=9 http=8081;"},
		"not to be told": {service(nil), []*v1.Pod{terminating, failed, homeless}, ""},
		"published anyway": {service(func(s *v1.Service) { s.Spec.PublishNotReadyAddresses = true }),
			[]*v1.Pod{terminating, pod("10.1.0.1", false, 8080)}, "10.1.0.1 10.1.0.9 | admin=9 http=8080;"},
		"headless, no port": {service(func(s *v1.Service) { s.Spec.ClusterIP = v1.ClusterIPNone; s.Spec.Ports = nil }),
			[]*v1.Pod{pod("10.1.0.1", true, 8080)}, "10.1.0.1 |;"},
	} {
		got, truncated := subsetsOf(tc.service, tc.pods)
		if show(got) != tc.want || truncated {
			t.Errorf("%s: %q, want %q", name, show(got), tc.want)
		}
	}
}

func TestPlan(t *testing.T) {
	s := service(func(s *v1.Service) { s.Spec.ClusterIP = v1.ClusterIPNone })
	pods := []*v1.Pod{pod("10.1.0.1", true, 8080)}
	made := plan(s, pods, nil)
	if _, headless := made.Labels[v1.IsHeadlessService]; !headless || made.Labels["team"] != "a" ||
		made.Labels[managedByLabel] != managedBy {
		t.Errorf("labels %v", made.Labels)
	}
	if again := plan(s, pods, made); again != nil {
		t.Errorf("writes again: %+v", again)
	}
	if changed := plan(s, nil, made); changed == nil || len(changed.Subsets) != 0 {
		t.Errorf("pod gone: %+v", changed)
	}
}

func TestCapacity(t *testing.T) {
	var pods []*v1.Pod
	for i := range 1200 {
		pods = append(pods, pod(fmt.Sprintf("10.1.%d.%d", i/200, i%200+1), i >= 300, 8080))
	}
	made := plan(service(nil), pods, nil)
	if n := len(made.Subsets[0].Addresses); n != 900 {
		t.Errorf("%d ready addresses, want all 900", n)
	}
	if n := len(made.Subsets[0].NotReadyAddresses); n != 100 {
		t.Errorf("%d addresses that are not ready, want 100", n)
	}
	if made.Annotations[v1.EndpointsOverCapacity] != "truncated" {
		t.Errorf("annotations %v", made.Annotations)
	}
}
