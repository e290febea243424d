package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler"
)

// onlyNode is a Filter plug-in that takes one node.
type onlyNode struct{ name string }

func (onlyNode) Name() string { return "OnlyNode" }

func (f onlyNode) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, n fwk.NodeInfo) *fwk.Status {
	if n.Node().Name != f.name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) aren't the one")
	}
	return nil
}

// TestWithScheduler: a plug-in of a test decides where the pods of a cluster go.
func TestWithScheduler(t *testing.T) {
	factory := func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if h.KubeConfig() == nil {
			t.Error("the plug-in gets no configuration of a client")
		}
		return onlyNode{"node-2"}, nil
	}
	c, client := started(t, WithNodes(3), WithScheduler(scheduler.WithPlugin("OnlyNode", factory)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, name := range []string{"one", "two"} {
		createPod(ctx, t, client, name)
		phase(ctx, t, client, name, corev1.PodRunning)
		pod, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil || pod.Spec.NodeName != "node-2" {
			t.Errorf("pod %s is on %s, error %v", name, pod.Spec.NodeName, err)
		}
	}
	if c.SchedulerURL() == "" {
		t.Error("the scheduler has no address")
	}
}
