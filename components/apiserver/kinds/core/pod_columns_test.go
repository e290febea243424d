package core

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

var running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

func TestPodRow(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	one := corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}
	withInit := corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}},
		InitContainers: []corev1.Container{{Name: "i"}, {Name: "j"}}}
	sidecar := corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}},
		InitContainers: []corev1.Container{{Name: "s", RestartPolicy: &always}}}
	for _, tc := range []struct {
		name    string
		spec    corev1.PodSpec
		status  corev1.PodStatus
		deleted bool
		want    []any // ready, status, restarts
	}{
		{"pending", one, corev1.PodStatus{Phase: "Pending"}, false, []any{"0/1", "Pending", "0"}},
		{"gated", one, corev1.PodStatus{Phase: "Pending", Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Reason: corev1.PodReasonSchedulingGated}}}, false,
			[]any{"0/1", "SchedulingGated", "0"}},
		{"creating", one, corev1.PodStatus{Phase: "Pending",
			ContainerStatuses: []corev1.ContainerStatus{{State: waiting("ContainerCreating")}}},
			false, []any{"0/1", "ContainerCreating", "0"}},
		{"running", one, corev1.PodStatus{Phase: "Running",
			ContainerStatuses: []corev1.ContainerStatus{{Ready: true, State: running}}},
			false, []any{"1/1", "Running", "0"}},
		{"restarted", one, corev1.PodStatus{Phase: "Running",
			ContainerStatuses: []corev1.ContainerStatus{{Ready: true, State: running, RestartCount: 3,
				LastTerminationState: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago(5 * time.Minute)}}}}},
			false, []any{"1/1", "Running", "3 (5m ago)"}},
		{"crashing", one, corev1.PodStatus{Phase: "Running",
			ContainerStatuses: []corev1.ContainerStatus{{State: waiting("CrashLoopBackOff"), RestartCount: 2}}},
			false, []any{"0/1", "CrashLoopBackOff", "2"}},
		{"completed", one, corev1.PodStatus{Phase: "Succeeded",
			ContainerStatuses: []corev1.ContainerStatus{{State: ended(0, "Completed")}}},
			false, []any{"0/1", "Completed", "0"}},
		{"exit code", one, corev1.PodStatus{Phase: "Failed",
			ContainerStatuses: []corev1.ContainerStatus{{State: ended(7, "")}}},
			false, []any{"0/1", "ExitCode:7", "0"}},
		{"init at work", withInit, corev1.PodStatus{Phase: "Pending", InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "i", State: ended(0, "Completed")}, {Name: "j", State: running}}}, false,
			[]any{"0/1", "Init:1/2", "0"}},
		{"init failed", withInit, corev1.PodStatus{Phase: "Pending", InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "i", State: ended(1, "Error"), RestartCount: 1}}}, false, []any{"0/1", "Init:Error", "1"}},
		{"sidecar", sidecar, corev1.PodStatus{Phase: "Running",
			InitContainerStatuses: []corev1.ContainerStatus{
				{Name: "s", State: running, Started: new(true), Ready: true}},
			ContainerStatuses: []corev1.ContainerStatus{{Ready: true, State: running}}}, false,
			[]any{"2/2", "Running", "0"}},
		{"terminating", one, corev1.PodStatus{Phase: "Running"}, true, []any{"0/1", "Terminating", "0"}},
		{"lost", one, corev1.PodStatus{Phase: "Running", Reason: "NodeLost"}, true, []any{"0/1", "Unknown", "0"}},
		{"evicted", one, corev1.PodStatus{Phase: "Failed", Reason: "Evicted"}, false, []any{"0/1", "Evicted", "0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: ago(90 * time.Second)},
				Spec: tc.spec, Status: tc.status}
			if tc.deleted {
				at := ago(0)
				p.DeletionTimestamp = &at
			}
			row := show.At(PodRow(p), now)
			want := append(append([]any{"p"}, tc.want...), "90s", "<none>", "<none>", "<none>", "<none>")
			if !reflect.DeepEqual(row, want) {
				t.Errorf("got  %v\nwant %v", row, want)
			}
		})
	}
}

func TestServiceRow(t *testing.T) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "s", CreationTimestamp: ago(time.Hour)},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.0.0.1"},
			Selector: map[string]string{"b": "2", "a": "1"},
			Ports:    []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: "TCP"}, {Port: 53, Protocol: "UDP"}}},
	}
	want := []any{"s", "LoadBalancer", "10.0.0.1", "<pending>", "80:30080/TCP,53/UDP", "60m", "a=1,b=2"}
	if row := show.At(ServiceRow(s), now); !reflect.DeepEqual(row, want) {
		t.Errorf("got  %v\nwant %v", row, want)
	}
}

func TestNodeRow(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n",
			Labels: map[string]string{"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/a": ""}},
		Spec: corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "1.2.3.4"}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1"},
		},
	}
	want := []any{"n", "Ready,SchedulingDisabled", "a,worker", "<unknown>", "v1", "1.2.3.4", "<none>", "<unknown>",
		"<unknown>", "<unknown>"}
	if row := show.At(NodeRow(n), now); !reflect.DeepEqual(row, want) {
		t.Errorf("got  %v\nwant %v", row, want)
	}
}
