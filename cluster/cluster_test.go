package cluster

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// started is a cluster in this process that ends with the test.
func started(t *testing.T, opts ...Option) (*Cluster, kubernetes.Interface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Start(ctx, append([]Option{InProcess(), WithProgress(func(e Event) {
		if e.Done || e.Notice != "" {
			t.Log(e.Step, e.Took, e.Notice)
		}
	})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range c.Members() {
				t.Logf("log of %s:\n%s", m.Name(), m.tail(context.Background()))
			}
		}
		if err := c.Stop(context.Background()); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c, client
}

func TestPodRunsOnHollowNode(t *testing.T) {
	for _, store := range []Store{Memory, EmbeddedEtcd} {
		t.Run(string(store), func(t *testing.T) {
			c, client := started(t, WithNodes(2), WithStore(store))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			createPod(ctx, t, client, "first")
			phase(ctx, t, client, "first", corev1.PodRunning)

			if err := c.Component(APIServer).Restart(ctx); err != nil {
				t.Fatal(err)
			}
			if err := c.WaitAPI(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().Pods("default").Get(ctx, "first", metav1.GetOptions{}); err != nil {
				t.Errorf("after a restart of the API server: %v", err)
			}
			createPod(ctx, t, client, "second")
			phase(ctx, t, client, "second", corev1.PodRunning)
		})
	}
}

func TestSchedulerStopsAndGoesOn(t *testing.T) {
	c, client := started(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Component(Scheduler).Stop(ctx); err != nil {
		t.Fatal(err)
	}
	createPod(ctx, t, client, "waits")
	pod, err := client.CoreV1().Pods("default").Get(ctx, "waits", metav1.GetOptions{})
	if err != nil || pod.Spec.NodeName != "" {
		t.Fatalf("scheduled without a scheduler: %q, %v", pod.Spec.NodeName, err)
	}
	if err := c.Component(Scheduler).Start(ctx); err != nil {
		t.Fatal(err)
	}
	phase(ctx, t, client, "waits", corev1.PodRunning)
}

func TestVerbsOnWhatDoesNotExist(t *testing.T) {
	var none *Cluster
	if err := none.Stop(t.Context()); err != nil {
		t.Errorf("Stop of nil: %v", err)
	}
	c := &Cluster{config: newConfig("x")}
	if err := c.Node(7).Pause(t.Context()); err == nil || !strings.Contains(err.Error(), "node-7") {
		t.Errorf("Pause: %v", err)
	}
	if err := c.Component(Scheduler).Kill(t.Context()); err == nil {
		t.Error("Kill of no scheduler: no error")
	}
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	for name, opt := range map[string]Option{
		"name": WithName("Not Good"), "nodes": WithNodes(-1), "servers": WithAPIServers(0), "etcd": WithEtcdMembers(0),
		"image": WithImage("kube-shceduler", "x"), "args": WithArgs("x"), "without": Without(APIServer),
		"store": WithStore("disk"),
	} {
		if _, err := Start(t.Context(), InProcess(), opt); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestStartFailsWithTheReason(t *testing.T) {
	_, err := Start(t.Context(), InProcess(), WithArgs(Scheduler, "--no-such-flag"))
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") || !strings.Contains(err.Error(), "scheduler-0") {
		t.Errorf("error %v, want one that names the flag and the member", err)
	}
}

func TestStepsStopAtTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	var log bytes.Buffer
	report := func(e Event) { log.WriteString(e.Step) }
	err := perform(t.Context(), report, []step{
		{"a", func(context.Context) error { return nil }},
		{"b", func(context.Context) error { return broken }},
		{"c", func(context.Context) error { t.Error("ran after an error"); return nil }},
	})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "b: ") || log.String() != "aabb" {
		t.Errorf("%v, %s", err, log.String())
	}
}

func createPod(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "quintet/testimage:dev"}}},
	}
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func phase(ctx context.Context, t *testing.T, client kubernetes.Interface, name string, want corev1.PodPhase) {
	t.Helper()
	var pod *corev1.Pod
	err := until(ctx, func(ctx context.Context) (err error) {
		if pod, err = client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}); err == nil &&
			pod.Status.Phase != want {
			err = errors.New(string(pod.Status.Phase))
		}
		return err
	})
	if err != nil {
		t.Fatalf("pod %s is not %s: %v\n%+v", name, want, err, pod.Status)
	}
}
