package suite

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// pending is a pod in a case's namespace that does not run, as waiting or condition says.
func pending(image string, waiting *corev1.ContainerStateWaiting, conditions ...corev1.PodCondition) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
		Status: corev1.PodStatus{Conditions: conditions, ContainerStatuses: []corev1.ContainerStatus{{Name: "main",
			Image: "sha256:0", State: corev1.ContainerState{Waiting: waiting}}}}}
}

func TestObstacle(t *testing.T) {
	backOff := &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such host"}
	unschedulable := func(message string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: message}
	}
	for name, test := range map[string]struct {
		pod       *corev1.Pod
		component Component
		err       error // of the list of pods
		want      string
	}{
		"none": {pod: pending("suite:1", &corev1.ContainerStateWaiting{Reason: "ContainerCreating"})},
		"the test image can't be pulled": {pod: pending("suite:1", backOff),
			want: "can't pull the test image suite:1: no such host"},
		"a case's own image can't be pulled": {pod: pending("none:1", backOff)},
		"no room": {pod: pending("suite:1", nil, unschedulable("0/1 nodes are available: 1 Insufficient cpu.")),
			component: Kubelet, want: "no node has room for pod p"},
		"no room is what a case of the scheduler is about": {component: Scheduler,
			pod: pending("suite:1", nil, unschedulable("0/1 nodes are available: 1 Insufficient cpu."))},
		"another reason of the scheduler": {component: Kubelet,
			pod: pending("suite:1", nil, unschedulable("0/1 nodes are available: 1 node(s) had taints."))},
		"the API refuses": {err: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)},
		"lost":            {err: errors.New("connection refused"), want: "the cluster was lost: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			if test.pod != nil {
				client = fake.NewClientset(test.pod)
			}
			if test.err != nil {
				client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.err
				})
			}
			engine := Engine{Cluster: &Cluster{Client: client, Image: "suite:1"}}
			got := engine.obstacle(t.Context(), &Case{Component: test.component}, "n")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := (&Engine{}).obstacle(ended, &Case{}, "n"); got != "the run was ended" {
		t.Errorf("after the end of the run: %q", got)
	}
}
