package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/cluster"
)

// snapshotStores are the stores of a cluster in this process.
var snapshotStores = []cluster.Store{cluster.Memory, cluster.EmbeddedEtcd}

func up(t *testing.T, opts ...cluster.Option) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), append([]cluster.Option{cluster.InProcess()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	stopped(t, c)
	return c
}

func stopped(t *testing.T, c *cluster.Cluster) {
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func put(t *testing.T, c *cluster.Cluster, name, value string) {
	t.Helper()
	maps := client(t, c.RESTConfig()).CoreV1().ConfigMaps("default")
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	_, err := maps.Create(t.Context(), obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(t.Context(), obj, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// value is "" where there is none.
func value(t *testing.T, c *cluster.Cluster, name string) string {
	t.Helper()
	obj, err := client(t, c.RESTConfig()).CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return obj.Data["value"]
}

func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestForksShareAPast: a fork has what its origin had, what is written later to either is its own, and users of one are
// users of the other.
func TestForksShareAPast(t *testing.T) {
	for _, store := range snapshotStores {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			origin := up(t, cluster.WithStore(store), cluster.WithNodes(2))
			put(t, origin, "past", "one")
			alice, err := origin.AddUser(t.Context(), "alice", "system:masters")
			if err != nil {
				t.Fatal(err)
			}
			fork, err := origin.Fork(t.Context(), cluster.WithNodes(1))
			if err != nil {
				t.Fatal(err)
			}
			stopped(t, fork)
			put(t, origin, "past", "two")
			put(t, fork, "future", "three")
			got := fmt.Sprint(value(t, origin, "past"), value(t, origin, "future"), value(t, fork, "past"),
				value(t, fork, "future"))
			if got != "twoonethree" {
				t.Errorf("origin and fork have %s", got)
			}
			alice.Host = fork.RESTConfig().Host
			nodes, err := client(t, alice).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "node-1" {
				t.Errorf("the fork's nodes, asked for by a user of its origin: %v, %v", nodes, err)
			}
		})
	}
}

// TestForksRunPods: a pod that ran in the origin runs in its forks, and those at once make new ones.
func TestForksRunPods(t *testing.T) {
	t.Parallel()
	origin := up(t)
	run := func(c *cluster.Cluster, name string) error {
		pods := client(t, c.RESTConfig()).CoreV1().Pods("default")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		return running(t, c, name)
	}
	if err := run(origin, "first"); err != nil {
		t.Fatal(err)
	}
	snapshot, err := origin.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			fork, err := snapshot.Start(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			stopped(t, fork)
			if err := run(fork, "second"); err != nil {
				t.Error(err)
			}
			if err := running(t, fork, "first"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	_, err = client(t, origin.RESTConfig()).CoreV1().Pods("default").Get(t.Context(), "second", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the origin's pod of its forks: %v", err)
	}
}

func running(t *testing.T, c *cluster.Cluster, name string) error {
	watch, err := client(t, c.RESTConfig()).CoreV1().Pods("default").Watch(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			return nil
		}
	}
	return fmt.Errorf("pod %s never ran", name)
}

// TestRestore: a cluster is again what it was, its clients go on, and resource versions are not given twice.
func TestRestore(t *testing.T) {
	for _, store := range snapshotStores {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			c := up(t, cluster.WithStore(store))
			put(t, c, "past", "one")
			snapshot, err := c.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			put(t, c, "past", "two")
			put(t, c, "future", "three")
			maps := client(t, c.RESTConfig()).CoreV1().ConfigMaps("default")
			before, err := maps.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // and again
				if err := c.Restore(t.Context(), snapshot); err != nil {
					t.Fatal(err)
				}
				if got := value(t, c, "past") + value(t, c, "future"); got != "one" {
					t.Errorf("after the restore: %s", got)
				}
				put(t, c, "past", "four")
			}
			watch, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion})
			if err == nil {
				defer watch.Stop()
				err = apierrors.FromObject((<-watch.ResultChan()).Object)
			}
			if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				t.Errorf("a watch that goes on from before: %v", err)
			}
		})
	}
}

func TestSnapshotsThatDoNotFit(t *testing.T) {
	t.Parallel()
	one, other := up(t, cluster.WithNodes(0)), up(t, cluster.WithNodes(0))
	snapshot, err := one.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = other.Restore(t.Context(), snapshot)
	if err == nil || !strings.Contains(err.Error(), "other authorities") {
		t.Errorf("of another cluster: %v", err)
	}
	_, err = snapshot.Start(t.Context(), cluster.WithStore(cluster.EmbeddedEtcd))
	if err == nil || !strings.Contains(err.Error(), "store memory") {
		t.Errorf("for another store: %v", err)
	}
}
