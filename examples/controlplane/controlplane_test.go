// Package controlplane tests an operator against a control plane in this process.
package controlplane

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/tests/runner"
	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/why"
)

// TestRunner: with envtest a Deployment has no pods, and nothing collects it. Here it becomes ready, and goes.
func TestRunner(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.InProcess())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	runOperator(ctx, t, c)

	api, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	asked := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{runner.Label: ""}},
		Data:       map[string]string{"image": "nginx"},
	}
	if err := api.Create(ctx, asked); err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	if err := why.WaitReady(ctx, api, deployment); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(ctx, asked); err != nil {
		t.Fatal(err)
	}
	if err := why.WaitGone(ctx, api, deployment); err != nil {
		t.Fatal(err)
	}
}

// runOperator runs the operator in this process until the test ends.
func runOperator(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(c.RESTConfig(), ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err == nil {
		err = runner.Setup(mgr)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
