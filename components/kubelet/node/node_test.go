package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	kruntime "quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
	"quintet.dev/quintet/components/kubelet/source"
	"quintet.dev/quintet/internal/release"
)

// waitTimeout bounds how long a test waits for a condition.
const waitTimeout = 30 * time.Second

func start(t *testing.T, client *fake.Clientset, change func(*Config)) *Node {
	t.Helper()
	config := Config{
		Client: client, Clock: clock.RealClock{},
		Watch:    source.Watch(source.Selected(client.CoreV1().Nodes(), fields.Everything(), client), &v1.Node{}),
		Engine:   hollow.New(hollow.Options{Clock: clock.RealClock{}, CPUs: 4, MemoryBytes: 8 << 30}),
		Recorder: &record.FakeRecorder{}, Name: "n1", Register: true, PodCIDRs: []string{"10.1.0.0/24"}, MaxPods: 110,
		MaxImages:       50,
		UpdateFrequency: 20 * time.Millisecond, ReportFrequency: time.Hour, LeaseSeconds: 1,
	}
	if change != nil {
		change(&config)
	}
	n := New(config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	return n
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", waitTimeout, what)
		}
	}
}

func get(t *testing.T, client *fake.Clientset) *v1.Node {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return node
}

func ready(node *v1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

func TestNodeIsRegistered(t *testing.T) {
	client := fake.NewClientset()
	start(t, client, func(c *Config) {
		c.Labels, c.Taints, c.Unschedulable = map[string]string{"disk": "ssd"},
			[]v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}, true
		c.Reserved = v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}
	})
	await(t, "ready", func() bool { return ready(get(t, client)) })
	node := get(t, client)
	if node.Labels["disk"] != "ssd" || node.Labels[v1.LabelHostname] != "n1" || len(node.Spec.Taints) != 1 ||
		!node.Spec.Unschedulable {
		t.Errorf("registered as %+v", node)
	}
	if got, want := node.Status.NodeInfo.KubeletVersion, release.Get().GitVersion; got != want {
		t.Errorf("kubelet %s, want %s", got, want)
	}
	capacity, allocatable := node.Status.Capacity[v1.ResourceCPU], node.Status.Allocatable[v1.ResourceCPU]
	if capacity.MilliValue() != 4000 || allocatable.MilliValue() != 3500 {
		t.Errorf("capacity %v, allocatable %v", &capacity, &allocatable)
	}
	await(t, "a lease that goes with the node", func() bool {
		lease, err := client.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(t.Context(), "n1", metav1.GetOptions{})
		return err == nil && len(lease.OwnerReferences) == 1 && lease.OwnerReferences[0].Name == "n1"
	})
}

func TestWhatOthersWroteStays(t *testing.T) {
	client := fake.NewClientset(&v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"mine": "yes"}},
		Status: v1.NodeStatus{
			Capacity:   v1.ResourceList{"example.com/gpu": resource.MustParse("2")},
			Conditions: []v1.NodeCondition{{Type: "Custom", Status: v1.ConditionTrue}},
		},
	})
	start(t, client, nil)
	await(t, "ready", func() bool { return ready(get(t, client)) })
	node := get(t, client)
	gpus := node.Status.Allocatable["example.com/gpu"]
	custom := slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == "Custom" })
	if node.Labels["mine"] != "yes" || gpus.Value() != 2 || !custom {
		t.Errorf("became %+v", node)
	}
}

func TestDeletedNodeIsNotMadeAnew(t *testing.T) {
	client := fake.NewClientset()
	n := start(t, client, func(c *Config) { c.ReportFrequency = 0 })
	await(t, "ready", func() bool { return ready(get(t, client)) && n.registered() != nil })
	nodes := client.CoreV1().Nodes()
	if err := nodes.Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the deletion is known", func() bool { return n.registered() == nil })
	if n.Current() == nil || n.Allocatable() == nil {
		t.Error("pods that run need to know of the node they had")
	}
	if err := n.ownLease(&coordinationv1.Lease{}); err == nil {
		t.Error("a lease is made for a node that is gone")
	}
	if _, err := nodes.Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the node that was recreated is reported on", func() bool { return ready(get(t, client)) })
}

func TestNodeWithoutNetworkIsNotReady(t *testing.T) {
	client := fake.NewClientset()
	n := start(t, client, func(c *Config) { c.PodCIDRs = nil })
	await(t, "not ready", func() bool { node := get(t, client); return node != nil && len(node.Status.Conditions) > 0 })
	if ready(get(t, client)) {
		t.Error("ready without a pod CIDR")
	}
	node := get(t, client).DeepCopy()
	node.Spec.PodCIDR = "10.2.0.0/24"
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-n.NetworkReady()
	await(t, "ready", func() bool { return ready(get(t, client)) })
}

// TestRangeThatComesWithAnAnswer checks that a node whose range was assigned between a report and its answer is
// reported on again at once: the watch shows no change any more.
func TestRangeThatComesWithAnAnswer(t *testing.T) {
	client := fake.NewClientset()
	client.PrependWatchReactor("nodes", clienttesting.DefaultWatchReactor(watch.NewFake(), nil))
	var assigned atomic.Bool
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		if assigned.Swap(true) {
			return false, nil, nil
		}
		nodes := v1.SchemeGroupVersion.WithResource("nodes")
		object, err := client.Tracker().Get(nodes, "", "n1")
		if err != nil {
			return true, nil, err
		}
		node := object.(*v1.Node).DeepCopy()
		node.Spec.PodCIDR = "10.2.0.0/24"
		return false, nil, client.Tracker().Update(nodes, node, "")
	})
	start(t, client, func(c *Config) { c.PodCIDRs, c.UpdateFrequency, c.ReportFrequency = nil, time.Hour, 0 })
	await(t, "ready", func() bool { return ready(get(t, client)) })
}

func TestEventsAboutTheNode(t *testing.T) {
	recorder := record.NewFakeRecorder(20)
	client := fake.NewClientset()
	start(t, client, func(c *Config) { c.Recorder, c.PodCIDRs = recorder, nil })
	await(t, "not ready", func() bool { node := get(t, client); return node != nil && len(node.Status.Conditions) > 0 })
	node := get(t, client).DeepCopy()
	node.Spec.PodCIDR = "10.2.0.0/24"
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Normal Starting Starting kubelet.",
		"Normal NodeHasSufficientMemory Node n1 status is now: NodeHasSufficientMemory",
		"Normal NodeHasNoDiskPressure Node n1 status is now: NodeHasNoDiskPressure",
		"Normal NodeHasSufficientPID Node n1 status is now: NodeHasSufficientPID",
		"Normal NodeReady Node n1 status is now: NodeReady",
	} {
		select {
		case got := <-recorder.Events:
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		case <-time.After(waitTimeout):
			t.Fatalf("no event %q", want)
		}
	}
}

// hung is an engine that gives no answer from a moment on.
type hung struct {
	*hollow.Engine
	stopped atomic.Bool
}

func (h *hung) Info(ctx context.Context) (kruntime.Info, error) {
	if h.stopped.Load() {
		<-ctx.Done()
		return kruntime.Info{}, ctx.Err()
	}
	return h.Engine.Info(ctx)
}

func (h *hung) SetPodCIDRs(ctx context.Context, cidrs []string) error {
	if h.stopped.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Engine.SetPodCIDRs(ctx, cidrs)
}

func message(node *v1.Node) string {
	i := slices.IndexFunc(node.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady })
	if i < 0 {
		return ""
	}
	return node.Status.Conditions[i].Message
}

func TestHungEngineIsTold(t *testing.T) {
	client := fake.NewClientset()
	engine := &hung{Engine: hollow.New(hollow.Options{Clock: clock.RealClock{}, CPUs: 4, MemoryBytes: 8 << 30})}
	start(t, client, func(c *Config) { c.Engine = engine })
	await(t, "ready", func() bool { return ready(get(t, client)) })
	engine.stopped.Store(true)
	await(t, "not ready", func() bool { return !ready(get(t, client)) })
	if got := message(get(t, client)); !strings.HasPrefix(got, "container runtime is down") {
		t.Errorf("message %q", got)
	}
	// Ranges that the engine does not take up hold no report back.
	node := get(t, client).DeepCopy()
	node.Spec.PodCIDRs, node.Annotations = []string{"10.9.0.0/24"}, map[string]string{"changed": "yes"}
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "both are told", func() bool {
		got := message(get(t, client))
		return strings.HasPrefix(got, "[container runtime is down") && strings.Contains(got, "network not ready")
	})
	engine.stopped.Store(false)
	await(t, "ready again", func() bool { return ready(get(t, client)) })
}

func TestEngineHasGrace(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	n := New(Config{Clock: now, EngineGrace: 30 * time.Second})
	n.engineSeen, n.networkErr = now.Now(), nil
	now.Step(29 * time.Second)
	if c := n.ready(errors.New("no answer")); c.Status != v1.ConditionTrue {
		t.Errorf("after 29 s: %+v", c)
	}
	now.Step(time.Second)
	if c := n.ready(errors.New("no answer")); c.Status != v1.ConditionFalse || c.Reason != "KubeletNotReady" {
		t.Errorf("after 30 s: %+v", c)
	}
	n.Healthy = func() error { return errors.New("PLEG is not healthy") }
	if c := n.ready(nil); c.Status != v1.ConditionFalse || c.Message != "PLEG is not healthy" {
		t.Errorf("without lists: %+v", c)
	}
}

// The API server asks in this order, and takes no other.
func TestDeclaredFeatures(t *testing.T) {
	got := declared()
	if !slices.IsSorted(got) {
		t.Errorf("not sorted: %v", got)
	}
	for _, name := range []string{"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
		"RestartAllContainersOnContainerExits"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not declared", name)
		}
	}
}

func TestPressure(t *testing.T) {
	client := fake.NewClientset()
	start(t, client, func(c *Config) {
		c.Pressure = func() []v1.NodeConditionType { return []v1.NodeConditionType{v1.NodeDiskPressure} }
	})
	await(t, "ready", func() bool { return ready(get(t, client)) })
	want := map[v1.NodeConditionType]string{
		v1.NodeMemoryPressure: "False KubeletHasSufficientMemory kubelet has sufficient memory available",
		v1.NodeDiskPressure:   "True KubeletHasDiskPressure kubelet has disk pressure",
		v1.NodePIDPressure:    "False KubeletHasSufficientPID kubelet has sufficient PID available",
	}
	for _, c := range get(t, client).Status.Conditions {
		text := string(c.Status) + " " + c.Reason + " " + c.Message
		if expected, ok := want[c.Type]; ok && text != expected {
			t.Errorf("%s: %s", c.Type, text)
		}
		delete(want, c.Type)
	}
	if len(want) > 0 {
		t.Errorf("conditions are missing: %v", want)
	}
}

// TestReportsTakeSlots: the time of a report begins once it has a slot.
func TestReportsTakeSlots(t *testing.T) {
	client := fake.NewClientset()
	var patched atomic.Int32
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		patched.Add(1)
		return false, nil, nil
	})
	slots := make(chan struct{}, 1)
	slots <- struct{}{} // another node's
	n := start(t, client, func(c *Config) { c.ReportSlots = slots })
	await(t, "registration", func() bool { return n.Current() != nil })
	time.Sleep(5 * n.UpdateFrequency)
	if got := patched.Load(); got != 0 {
		t.Errorf("%d reports without a slot", got)
	}
	<-slots
	await(t, "a report", func() bool { return patched.Load() > 0 && len(slots) == 0 })
}
