package scheduler

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/internal/watchtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a scheduler at work on an API server that is only pretended.
type cluster struct {
	*testing.T
	client    *fake.Clientset
	scheduler *Scheduler
	stop      func()
}

// newClient pretends to be an API server that binds pods.
func newClient(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	watchtest.Copy(client)
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateAction)
		if create.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := create.GetObject().(*v1.Binding)
		obj, err := client.Tracker().Get(create.GetResource(), create.GetNamespace(), binding.Name)
		if err != nil {
			return true, nil, err
		}
		pod := obj.(*v1.Pod).DeepCopy()
		pod.Spec.NodeName = binding.Target.Name
		return true, binding, client.Tracker().Update(create.GetResource(), pod, create.GetNamespace())
	})
	return client
}

func start(t *testing.T, c Config, objects ...runtime.Object) *cluster {
	t.Helper()
	return startOn(t, c, newClient(objects...))
}

// startOn takes a client to which no reactors are added any more.
func startOn(t *testing.T, c Config, client *fake.Clientset) *cluster {
	t.Helper()
	c.Client = client
	if c.InitialBackoff == 0 {
		c.InitialBackoff = time.Millisecond
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return &cluster{T: t, client: client, scheduler: s, stop: stop}
}

func (c *cluster) pod(name string) *v1.Pod {
	c.Helper()
	p, err := c.client.CoreV1().Pods("default").Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// await waits until the pod satisfies the condition.
func (c *cluster) await(name, what string, is func(*v1.Pod) bool) *v1.Pod {
	c.Helper()
	var last *v1.Pod
	err := wait.PollUntilContextTimeout(c.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool,
		error) {
		last = c.pod(name)
		return is(last), nil
	})
	if err != nil {
		c.Fatalf("pod %s never was %s; node %q, conditions %+v", name, what, last.Spec.NodeName, last.Status.Conditions)
	}
	return last
}

func (c *cluster) bound(name, node string) {
	c.Helper()
	c.await(name, "on node "+node, func(p *v1.Pod) bool { return p.Spec.NodeName == node })
}

func (c *cluster) refused(name, message string) {
	c.Helper()
	c.await(name, "refused with "+message, func(p *v1.Pod) bool {
		for _, condition := range p.Status.Conditions {
			if condition.Type == v1.PodScheduled && condition.Reason == v1.PodReasonUnschedulable {
				return strings.HasPrefix(condition.Message, message)
			}
		}
		return false
	})
}

func (c *cluster) createPod(p *v1.Pod) {
	c.Helper()
	if _, err := c.client.CoreV1().Pods("default").Create(c.Context(), p, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) createNode(n *v1.Node) {
	c.Helper()
	if _, err := c.client.CoreV1().Nodes().Create(c.Context(), n, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) updateNode(n *v1.Node) {
	c.Helper()
	if _, err := c.client.CoreV1().Nodes().Update(c.Context(), n, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func newNode(name, cpu string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name),
			Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("4Gi"),
			v1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

func newPod(name, cpu string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pod-" + name)},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{
			Name: "c", Image: "i",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
}

func TestBinds(t *testing.T) {
	c := start(t, Config{}, newNode("a", "2"), newPod("before", "1"))
	c.bound("before", "a")
	c.createPod(newPod("after", "1"))
	c.bound("after", "a")
}

func TestNoNodesThenOne(t *testing.T) {
	c := start(t, Config{}, newPod("p", "1"))
	c.refused("p", "no nodes available to schedule pods")
	c.createNode(newNode("a", "1"))
	c.bound("p", "a")
}

func TestLateCapacity(t *testing.T) {
	c := start(t, Config{}, newNode("a", "1"), newPod("first", "1"))
	c.bound("first", "a")
	c.createPod(newPod("second", "1"))
	c.refused("second", "0/1 nodes are available: 1 Insufficient cpu.")
	if err := c.client.CoreV1().Pods("default").Delete(c.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bound("second", "a")
}

func TestTaintRemoved(t *testing.T) {
	tainted := newNode("a", "1")
	tainted.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}
	c := start(t, Config{}, tainted, newPod("p", "1"))
	c.refused("p", "0/1 nodes are available: 1 node(s) had untolerated taint(s).")
	c.updateNode(newNode("a", "1"))
	c.bound("p", "a")
}

func TestGatesRemoved(t *testing.T) {
	gated := newPod("gated", "1")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
	c := start(t, Config{}, newNode("a", "2"), gated, newPod("free", "1"))
	c.bound("free", "a")
	if node := c.pod("gated").Spec.NodeName; node != "" {
		t.Fatalf("gated pod is on %s", node)
	}
	open := newPod("gated", "1")
	if _, err := c.client.CoreV1().Pods("default").Update(t.Context(), open, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bound("gated", "a")
}

func TestProfiles(t *testing.T) {
	other := newPod("other", "1")
	other.Spec.SchedulerName = "other"
	stranger := newPod("stranger", "1")
	stranger.Spec.SchedulerName = "stranger"
	c := start(t, Config{Profiles: []Profile{{Name: "default-scheduler"}, {Name: "other"}}}, newNode("a", "4"),
		stranger, other, newPod("p", "1"))
	c.bound("other", "a")
	c.bound("p", "a")
	if node := c.pod("stranger").Spec.NodeName; node != "" {
		t.Errorf("a pod of another scheduler was put on %s", node)
	}
}

func TestBindingFailsOnce(t *testing.T) {
	client := newClient(newNode("a", "1"))
	failed := make(chan struct{})
	once := false
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" || once {
			return false, nil, nil
		}
		once = true
		close(failed)
		return true, nil, context.DeadlineExceeded
	})
	c := startOn(t, Config{}, client)
	c.createPod(newPod("p", "1"))
	<-failed
	c.bound("p", "a")
}

// TestLateUpdate: a pod that is bound is not placed again when the watch tells of a change from before.
func TestLateUpdate(t *testing.T) {
	client := newClient(newNode("a", "2"))
	var bindings atomic.Int32
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		if binding.Name != "p" {
			return false, nil, nil
		}
		bindings.Add(1)
		return true, binding, nil // the watch is late
	})
	c := startOn(t, Config{}, client)
	atRest := func(what string) {
		t.Helper()
		c.eventually(what, func() bool {
			pods, _ := c.scheduler.queue.InFlight()
			return bindings.Load() > 0 && pods == 0
		})
	}
	p := newPod("p", "1")
	c.createPod(p)
	atRest("p is bound")
	p.Labels = map[string]string{"changed": "before"}
	if _, err := client.CoreV1().Pods("default").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.createPod(newPod("next", "1"))
	c.bound("next", "a")
	atRest("next is bound")
	if n := bindings.Load(); n != 1 {
		t.Errorf("p was bound %d times", n)
	}
}

func TestPreempts(t *testing.T) {
	low := newPod("low", "1")
	low.Spec.NodeName = "a"
	c := start(t, Config{}, newNode("a", "1"), low)
	high := newPod("high", "1")
	high.Spec.Priority = ptr.To[int32](10)
	c.createPod(high)
	c.bound("high", "a")
	if _, err := c.client.CoreV1().Pods("default").Get(t.Context(), "low",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the victim is still there: %v", err)
	}
	c.event("low", "Preempted", "Preempted by pod pod-high on node a")
	c.event("high", "Scheduled", "Successfully assigned default/high to a")
	c.event("high", "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.")
}

// event waits until one about a pod is recorded.
func (c *cluster) event(pod, reason, note string) {
	c.Helper()
	var seen []string
	err := wait.PollUntilContextTimeout(c.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool,
		error) {
		list, err := c.client.EventsV1().Events("default").List(c.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		seen = nil
		for _, e := range list.Items {
			seen = append(seen, e.Regarding.Name+" "+e.Reason+" "+e.Note)
			if e.Regarding.Name == pod && e.Reason == reason && e.Note == note {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		c.Fatalf("no event %s %s %q among %q", pod, reason, note, seen)
	}
}

func TestMessageOfRefusal(t *testing.T) {
	tainted := newNode("b", "8")
	tainted.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}}
	c := start(t, Config{}, newNode("a", "1"), tainted, newPod("p", "2"))
	c.refused("p",
		"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). no new claims to deallocate, "+
			"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
}

// eventually waits until is.
func (c *cluster) eventually(what string, is func() bool) {
	c.Helper()
	err := wait.PollUntilContextTimeout(c.Context(), time.Millisecond, 20*time.Second, true,
		func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		c.Fatalf("%s: not in time", what)
	}
}
