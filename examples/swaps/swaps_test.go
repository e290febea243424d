// Package swaps runs one test on many clusters.
package swaps

import (
	"context"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/why"
)

// TestSwaps: whatever is swapped, a Deployment gets its pods. A row is options; SCHEDULER_IMAGE is yours, or
// upstream's (registry.k8s.io/kube-scheduler:v1.36.3).
func TestSwaps(t *testing.T) {
	table := []struct {
		name   string
		docker bool
		opts   []cluster.Option
	}{
		{name: "in this process", opts: []cluster.Option{cluster.InProcess()}},
		{name: "objects in etcd", opts: []cluster.Option{cluster.InProcess(), cluster.WithStore(cluster.EmbeddedEtcd)}},
		{name: "three API servers, two schedulers", opts: []cluster.Option{cluster.InProcess(), cluster.WithAPIServers(3),
			cluster.WithSchedulers(2), cluster.WithStore(cluster.EmbeddedEtcd)}},
		{name: "feature gate", opts: []cluster.Option{cluster.InProcess(),
			cluster.WithArgs(cluster.Scheduler, "--feature-gates=SchedulerQueueingHints=true")}},
		{name: "real pods", docker: true},
		{name: "another scheduler", docker: true, opts: []cluster.Option{
			cluster.WithImage(cluster.Scheduler, os.Getenv("SCHEDULER_IMAGE"))}},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			switch {
			case row.docker && testing.Short():
				t.Skip("needs Docker")
			case row.name == "another scheduler" && os.Getenv("SCHEDULER_IMAGE") == "":
				t.Skip("SCHEDULER_IMAGE is not set")
			}
			c, err := cluster.Start(t.Context(), row.opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Stop(context.Background()) })
			deploys(t, c)
		})
	}
}

func deploys(t *testing.T, c *cluster.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	api, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "quintet/testimage:dev", Command: []string{"testimage", "serve"}}}},
			},
		},
	}
	if err := api.Create(ctx, web); err != nil {
		t.Fatal(err)
	}
	if err := why.WaitReady(ctx, api, web); err != nil {
		t.Fatal(err)
	}
}
