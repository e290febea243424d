package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/cluster"
)

const testImage = "quintet/testimage:dev"

// containers measures a cluster with one real node: how long until its first pod runs, how long a pod takes then
// against a bare `docker run` on the same node, and what the components hold in memory. How long it takes to remove one
// is measured with two nodes.
func containers(ctx context.Context, _ Options) ([]Measure, error) {
	begin := time.Now()
	c, err := cluster.Start(ctx, cluster.WithNodes(1))
	if err != nil {
		return nil, err
	}
	defer c.Stop(context.WithoutCancel(ctx))
	config := c.RESTConfig()
	config.QPS = -1
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	up := time.Since(begin)
	if _, err := createToRunning(ctx, api, "first"); err != nil {
		return nil, err
	}
	out := []Measure{
		{Name: "up, one node ready", Value: up.Seconds(), Unit: "s"},
		{Name: "up to the first Running pod", Value: time.Since(begin).Seconds(), Unit: "s", Aim: "≤ 6 s"},
	}
	pods, err := median(9, func(i int) (time.Duration, error) {
		return createToRunning(ctx, api,
			fmt.Sprintf("pod-%d", i))
	})
	if err != nil {
		return nil, err
	}
	bare, err := median(9, func(i int) (time.Duration, error) { return dockerRun(ctx, c.Node(1), i) })
	if err != nil {
		return nil, err
	}
	out = append(out, Measure{Name: "create → Running, median", Value: milliseconds(pods), Unit: "ms",
		Limit: milliseconds(bare), Against: "docker run on the node, ms", Aim: "≤ 3x"})
	memory, err := membersMemory(ctx, c)
	if err != nil {
		return nil, err
	}
	down, err := teardown(ctx)
	out = append(out, Measure{Name: "down, two nodes", Value: down.Seconds(), Unit: "s", Aim: "≤ 1.5 s"})
	return append(out, memory...), err
}

// teardown measures how long it takes until nothing is left of a cluster with two nodes.
func teardown(ctx context.Context) (time.Duration, error) {
	c, err := cluster.Start(ctx, cluster.WithNodes(2))
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = c.Stop(context.WithoutCancel(ctx))
	return time.Since(begin), err
}

// createToRunning creates a serving pod and returns how long it took until a watch showed it running.
func createToRunning(ctx context.Context, client kubernetes.Interface, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name",
		name).String()})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	begin := time.Now()
	_, err = pods.Create(ctx, servingPod(name), metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	for event := range w.ResultChan() {
		if p, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Modified && p.Status.Phase == corev1.PodRunning {
			return time.Since(begin), nil
		}
	}
	return 0, fmt.Errorf("pod %s did not run: the watch ended: %w", name, ctx.Err())
}

// servingPod is a pod with one container that serves until it is ended.
func servingPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](0), AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "main", Image: testImage, Args: []string{"serve"}}}},
	}
}

// dockerRun starts the same container with nothing but the node's engine.
func dockerRun(ctx context.Context, node *cluster.Member, i int) (time.Duration, error) {
	begin := time.Now()
	result, err := node.Exec(ctx, []string{"docker", "run", "--detach", "--network=none", fmt.Sprintf("--name=bare-%d", i),
		testImage, "serve"}, nil)
	took := time.Since(begin)
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("docker run: %s", strings.TrimSpace(string(result.Stderr)))
	}
	return took, err
}

func median(n int, op func(i int) (time.Duration, error)) (time.Duration, error) {
	var all []time.Duration
	for i := range n {
		d, err := op(i)
		if err != nil {
			return 0, err
		}
		all = append(all, d)
	}
	slices.Sort(all)
	return all[n/2], nil
}

// membersMemory reads the resident memory of the first process of every member.
func membersMemory(ctx context.Context, c *cluster.Cluster) ([]Measure, error) {
	docker, err := client.New(client.FromEnv)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	var out []Measure
	for _, m := range c.Members() {
		if m.Component() == cluster.Node {
			continue
		}
		inspected, err := docker.ContainerInspect(ctx, c.Name()+"-"+m.Name(), client.ContainerInspectOptions{})
		if err != nil {
			return nil, err
		}
		mib, err := resident(inspected.Container.State.Pid)
		if err != nil {
			return nil, err
		}
		out = append(out, Measure{Name: "resident, " + m.Name(), Value: mib, Unit: "MiB"})
	}
	kubelet, err := residentOn(ctx, c.Node(1), "kubelet")
	return append(out, Measure{Name: "resident, kubelet", Value: kubelet, Unit: "MiB"}), err
}

// residentOn asks the node itself: its processes have numbers of their own. It returns MiB.
func residentOn(ctx context.Context, node *cluster.Member, program string) (float64, error) {
	script := "awk '/^VmRSS/{print $2}' /proc/$(pidof " + program + ")/status"
	result, err := node.Exec(ctx, []string{"sh", "-c", script}, nil)
	if err != nil {
		return 0, err
	}
	var kib float64
	if _, err := fmt.Sscan(string(result.Stdout), &kib); err != nil {
		return 0, fmt.Errorf("the memory of %s: %w: %s", program, err, result.Stderr)
	}
	return kib / 1024, nil
}
