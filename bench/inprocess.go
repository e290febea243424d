package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster"
)

const (
	inProcessNodes = 3
	// clustersAtOnce live while the memory of each is measured.
	clustersAtOnce = 20
	// forkedObjects is how many objects a cluster has that is forked.
	forkedObjects = 10_000
)

// inProcess measures whole clusters that live in this process: how long they take to start, to fork and to end, and
// what each holds in memory. The first start is told apart: it also makes what later ones share.
func inProcess(ctx context.Context, _ Options) ([]Measure, error) {
	begin := time.Now()
	c, client, err := startInProcess(ctx)
	if err != nil {
		return nil, err
	}
	first := time.Since(begin)
	defer c.Stop(context.WithoutCancel(ctx))
	pod, err := createToRunning(ctx, client, "hollow")
	if err != nil {
		return nil, err
	}
	start, end, err := lives(ctx)
	if err != nil {
		return nil, err
	}
	small, err := forks(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := createConfigMaps(ctx, client); err != nil {
		return nil, err
	}
	large, err := forks(ctx, c)
	if err != nil {
		return nil, err
	}
	each, err := memoryEach(ctx)
	return []Measure{
		{Name: fmt.Sprintf("first start, %d hollow nodes ready", inProcessNodes), Value: milliseconds(first), Unit: "ms"},
		{Name: "start, median", Value: milliseconds(start), Unit: "ms", Aim: "≤ 150 ms"},
		{Name: "end, median", Value: milliseconds(end), Unit: "ms"},
		{Name: "create → Running, hollow", Value: milliseconds(pod), Unit: "ms"},
		{Name: fmt.Sprintf("fork of %d objects, median", forkedObjects), Value: milliseconds(large), Unit: "ms",
			Limit: milliseconds(small), Against: "fork of few objects, ms", Aim: "≤ 50 ms"},
		{Name: fmt.Sprintf("resident, each of %d", clustersAtOnce), Value: each, Unit: "MiB", Aim: "≤ 25 MiB"},
	}, err
}

func startInProcess(ctx context.Context) (*cluster.Cluster, kubernetes.Interface, error) {
	c, err := cluster.Start(ctx, cluster.InProcess(), cluster.WithNodes(inProcessNodes))
	if err != nil {
		return nil, nil, err
	}
	config := c.RESTConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, client, nil
}

// lives measures how long a cluster takes to start, and to end: medians.
func lives(ctx context.Context) (start, end time.Duration, err error) {
	var ends []time.Duration
	start, err = median(9, func(int) (time.Duration, error) {
		begin := time.Now()
		c, _, err := startInProcess(ctx)
		started := time.Now()
		if err == nil {
			err = c.Stop(context.WithoutCancel(ctx))
		}
		ends = append(ends, time.Since(started))
		return started.Sub(begin), err
	})
	if err != nil {
		return 0, 0, err
	}
	slices.Sort(ends)
	return start, ends[len(ends)/2], nil
}

// createConfigMaps creates the objects that a fork takes over.
func createConfigMaps(ctx context.Context, client kubernetes.Interface) error {
	for i := range forkedObjects {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("forked-%d", i)},
			Data: map[string]string{"key": "value"}}
		_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// forks measures how long it takes until a fork of the cluster is ready.
func forks(ctx context.Context, c *cluster.Cluster) (time.Duration, error) {
	return median(9, func(int) (time.Duration, error) {
		begin := time.Now()
		fork, err := c.Fork(ctx)
		took := time.Since(begin)
		return took, errors.Join(err, fork.Stop(context.WithoutCancel(ctx)))
	})
}

// memoryEach is by how much this process is larger for each of several clusters, in MiB.
func memoryEach(ctx context.Context) (float64, error) {
	debug.FreeOSMemory()
	before, err := resident(os.Getpid())
	if err != nil {
		return 0, err
	}
	for range clustersAtOnce {
		c, _, err := startInProcess(ctx)
		if err != nil {
			return 0, err
		}
		defer c.Stop(context.WithoutCancel(ctx))
	}
	debug.FreeOSMemory()
	after, err := resident(os.Getpid())
	return (after - before) / clustersAtOnce, err
}
