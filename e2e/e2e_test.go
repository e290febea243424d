// Package e2e tests whole clusters of containers: faults, swaps, several at once, and the conformance suite over all.
package e2e

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/cluster"
)

const (
	testImage = "quintet/testimage:dev"
	space     = metav1.NamespaceDefault
	// waitTimeout bounds every wait for a condition: long enough for a busy machine.
	waitTimeout = 90 * time.Second
)

// world is a cluster under test as a test sees it.
type world struct {
	*cluster.Cluster
	gomega.Gomega
	t      *testing.T
	client kubernetes.Interface
}

// start brings a cluster up that ends with the test. The logs of a failed test's components are part of its output.
func start(t *testing.T, opts ...cluster.Option) *world {
	t.Helper()
	// It bounds itself, but for images that are to be built: on a busy machine, that takes longer than a cluster may.
	c, err := cluster.Start(t.Context(), append(opts, cluster.WithProgress(func(e cluster.Event) {
		if e.Done || e.Notice != "" {
			t.Log(e.Step, e.Took, e.Notice)
		}
	}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		expectNoPanic(t, c)
		if t.Failed() {
			showLogs(t, c)
		}
		if err := c.Stop(context.Background()); err != nil {
			t.Errorf("the cluster could not be removed: %v", err)
		}
	})
	return see(t, c)
}

func see(t *testing.T, c *cluster.Cluster) *world {
	t.Helper()
	config := c.RESTConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitTimeout)
	g.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	return &world{Cluster: c, Gomega: g, t: t, client: client}
}

// expectNoPanic fails a test during which a request made an API server panic: it aborts the request and continues, so
// that nothing else need show it.
func expectNoPanic(t *testing.T, c *cluster.Cluster) {
	var b bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.Component(cluster.APIServer).Logs(ctx, &b); err != nil {
		return // it was killed by the test
	}
	if _, trace, found := bytes.Cut(b.Bytes(), []byte("A request panicked")); found {
		t.Errorf("a request made the API server panic:%s", trace[:min(len(trace), 6000)])
	}
}

// showLogs prints the end of every component's log.
func showLogs(t *testing.T, c *cluster.Cluster) {
	const most = 6000
	for _, m := range c.Members() {
		var b bytes.Buffer
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := m.Logs(ctx, false, &b)
		cancel()
		log := b.Bytes()
		t.Logf("log of %s (%v):\n%s", m.Name(), err, log[max(0, len(log)-most):])
	}
}

func (w *world) must(err error, format string, args ...any) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// podSpec is of a pod that serves until it is asked to end, and leaves a lost node within a second.
func podSpec() corev1.PodSpec {
	lost := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To[int64](1)}
	}
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		Tolerations: []corev1.Toleration{lost(corev1.TaintNodeNotReady),
			lost(corev1.TaintNodeUnreachable)},
		Containers: []corev1.Container{{Name: "main", Image: testImage, Args: []string{"serve"}}},
	}
}

func (w *world) createPod(name string) *corev1.Pod {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods(space).Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: podSpec()},
		metav1.CreateOptions{})
	w.must(err, "create pod %s", name)
	return p
}

func (w *world) createDeployment(name string, replicas int32) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	_, err := w.client.AppsV1().Deployments(space).Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()}},
	}, metav1.CreateOptions{})
	w.must(err, "create deployment %s", name)
}

// pods returns a function that lists an app's pods, for Eventually.
func (w *world) pods(app string) func() ([]corev1.Pod, error) {
	return func() ([]corev1.Pod, error) {
		list, err := w.client.CoreV1().Pods(space).List(w.t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
}

func ready(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

// waitReady waits until exactly n pods of an app are ready and returns them.
func (w *world) waitReady(app string, n int) []corev1.Pod {
	w.t.Helper()
	var found []corev1.Pod
	w.Eventually(func() ([]corev1.Pod, error) {
		all, err := w.pods(app)()
		found = found[:0]
		for _, p := range all {
			if ready(p) {
				found = append(found, p)
			}
		}
		return found, err
	}).Should(gomega.HaveLen(n), "ready pods of %s", app)
	return found
}
