package kubelet

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
)

// TestShutdown: pods end with upstream's status, the node is not ready, and the kubelet returns.
func TestShutdown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, told := fake.NewClientset(), make(chan struct{})
	config := NewConfig()
	config.Client, config.Engine, config.Listener, config.HostnameOverride = client, newEngine(), listener, "n1"
	config.Runtime, config.PodCIDR, config.Recorder = "hollow", "10.1.0.0/24", &record.FakeRecorder{}
	config.ShutdownGracePeriod, config.ShutdownGracePeriodCriticalPods = 20*time.Second, 10*time.Second
	config.ShuttingDown = told
	k, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	r := &rig{t: t, client: client, engine: config.Engine}
	r.create("p", nil)
	r.awaitPhase("p", v1.PodRunning)
	close(told)
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run returned %v", err)
		}
	case <-time.After(waitTimeout):
		t.Fatal("Run does not return")
	}
	p := r.pod("p")
	if p.Status.Phase != v1.PodFailed || p.Status.Reason != "Terminated" ||
		p.Status.Message != "Pod was terminated in response to imminent node shutdown." {
		t.Errorf("status %+v", p.Status)
	}
	disrupted := func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue &&
			c.Reason == v1.PodReasonTerminationByKubelet
	}
	if !slices.ContainsFunc(p.Status.Conditions, disrupted) {
		t.Errorf("conditions %+v", p.Status.Conditions)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	notReady := func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionFalse && c.Reason == "KubeletNotReady" &&
			c.Message == "node is shutting down"
	}
	if !slices.ContainsFunc(node.Status.Conditions, notReady) {
		t.Errorf("conditions %+v", node.Status.Conditions)
	}
}
