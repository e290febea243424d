package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

var parallel = flag.Int("parallel-clusters", 6, "how many clusters TestParallelClusters has at once in this process")

// startsAtOnce is how many clusters start at a time for each processor: a hundred that do at once starve each other.
const startsAtOnce = 4

// parallelTimeout bounds all of it, for hundreds of clusters under the race detector.
const parallelTimeout = 40 * time.Minute

// TestParallelClusters: many clusters live in one process at once, each with its own objects, and leave no goroutine
// and no file behind.
func TestParallelClusters(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), parallelTimeout)
	defer cancel()
	run := func(n int) {
		clusters := make([]*Cluster, n)
		var all errgroup.Group
		all.SetLimit(startsAtOnce * runtime.GOMAXPROCS(0))
		for i := range clusters {
			all.Go(func() (err error) {
				clusters[i], err = Start(ctx, InProcess(), WithTimeout(parallelTimeout))
				if err == nil {
					err = runOnePod(ctx, clusters[i], fmt.Sprintf("pod-%d", i))
				}
				return err
			})
		}
		err := all.Wait()
		t.Logf("%d clusters: %d MiB resident, %d goroutines", n, residentMiB(t), runtime.NumGoroutine())
		var stopped errgroup.Group
		for _, c := range clusters {
			stopped.Go(func() error { return c.Stop(context.Background()) })
		}
		if err := errors.Join(err, stopped.Wait()); err != nil {
			t.Fatal(err)
		}
	}
	run(1) // what libraries start once and never end
	before := goleak.IgnoreCurrent()
	run(*parallel)
	goleak.VerifyNone(t, before)
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("files that are left: %v, %v", left, err)
	}
}

// runOnePod runs a pod, which is the only one of its cluster.
func runOnePod(ctx context.Context, c *Cluster, name string) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "any"}}}}, metav1.CreateOptions{})
	for err == nil {
		var list *corev1.PodList
		if list, err = pods.List(ctx, metav1.ListOptions{}); err != nil {
			break
		}
		if len(list.Items) != 1 || list.Items[0].Name != name {
			return fmt.Errorf("%s is not the only pod of %d", name, len(list.Items))
		}
		if list.Items[0].Status.Phase == corev1.PodRunning {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// residentMiB is the memory of this process (proc(5), VmRSS), 0 where that can't be read.
func residentMiB(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kilobytes int
	_, _ = fmt.Sscan(rest, &kilobytes)
	return kilobytes >> 10
}
