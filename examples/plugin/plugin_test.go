package plugin

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/components/scheduler"
	"quintet.dev/quintet/why"
)

// TestTeams: of ten nodes, the pod gets the one of its team.
func TestTeams(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.InProcess(), cluster.WithNodes(10),
		cluster.WithScheduler(scheduler.WithPlugin(Name, New)),
		cluster.WithNode(cluster.NodeOptions{Labels: map[string]string{Label: "blue"}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	api, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{Label: "blue"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
	if err := api.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if err := why.WaitReady(ctx, api, pod); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.NodeName != "node-1" {
		t.Errorf("the pod is on %s", pod.Spec.NodeName)
	}
}
