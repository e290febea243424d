package pods

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/kubelet/devices"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
)

// widgets gives each pod that asks for them one device, as long as there are any.
type widgets struct {
	mu   sync.Mutex
	free int
	has  map[types.UID]bool
	kept int // calls of Retain
}

const widget = "example.com/widget"

func (w *widgets) Wants(pod *v1.Pod) bool {
	_, wants := pod.Spec.Containers[0].Resources.Limits[widget]
	return wants
}

func (w *widgets) Allocate(_ context.Context, pod *v1.Pod) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.has[pod.UID] {
		return nil
	}
	if w.free == 0 {
		return errors.New("requested number of devices unavailable for example.com/widget. Requested: 1, Available: 0")
	}
	w.free--
	w.has[pod.UID] = true
	return nil
}

func (w *widgets) Release(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.has[uid] {
		w.free++
		delete(w.has, uid)
	}
}

func (w *widgets) Retain(func(types.UID) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept++
}

func (w *widgets) WithAllocated(node *v1.Node) *v1.Node {
	raised := node.DeepCopy()
	raised.Status.Allocatable[widget] = resource.MustParse("1")
	return raised
}

func (w *widgets) Container(_ context.Context, uid types.UID, c *v1.Container) (*devices.Options, error) {
	if c.Name == "broken" {
		return nil, errors.New("device plugin PreStartContainer rpc failed with err: not now")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.has[uid] {
		return nil, nil
	}
	return &devices.Options{Env: map[string]string{"WIDGET": "d0"}}, nil
}

func (w *widgets) Health(uid types.UID) map[string][]v1.ResourceStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.has[uid] {
		return nil
	}
	return map[string][]v1.ResourceStatus{"c": {{Name: widget,
		Resources: []v1.ResourceHealth{{ResourceID: "d0", Health: v1.ResourceHealthStatusHealthy}}}}}
}

// recordingEngine notes what containers are made from.
type recordingEngine struct {
	*gate
	mu    sync.Mutex
	specs []*runtime.ContainerSpec
}

func (e *recordingEngine) CreateContainer(ctx context.Context, s *runtime.ContainerSpec) (string, error) {
	e.mu.Lock()
	e.specs = append(e.specs, s)
	e.mu.Unlock()
	return e.gate.CreateContainer(ctx, s)
}

func widgetPod(uid types.UID) *v1.Pod {
	pod := simplePod(uid)
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{widget: resource.MustParse("1")}
	pod.Spec.Containers[0].Resources.Requests = pod.Spec.Containers[0].Resources.Limits
	return pod
}

func nodeWithWidgets(count string) func() *v1.Node {
	return func() *v1.Node {
		return &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourcePods: resource.MustParse("10"), widget: resource.MustParse(count)}}}
	}
}

func TestPodsGetDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &recordingEngine{gate: newGate(t)}
		m, stop := runManager(t, engine)
		defer stop()
		w := &widgets{free: 1, has: map[types.UID]bool{}}
		m.Devices, m.Node = w, nodeWithWidgets("0") // the plug-in stopped after the allocation
		m.Set(widgetPod("a"))
		synctest.Wait()
		if got := phaseOf(m, "a"); got != v1.PodRunning {
			t.Fatalf("a is %s", got)
		}
		if got := engine.specs[0].Env; len(got) != 1 || got[0] != "WIDGET=d0" {
			t.Errorf("variables %v", got)
		}
		status := m.Find("ns", "a").Status.ContainerStatuses[0].AllocatedResourcesStatus
		if len(status) != 1 || status[0].Resources[0].Health != v1.ResourceHealthStatusHealthy {
			t.Errorf("health %v", status)
		}
		m.Set(widgetPod("b"))
		synctest.Wait()
		b := m.Find("ns", "b").Status
		want := "Pod was rejected: Allocate failed due to requested number of devices unavailable for " +
			"example.com/widget. Requested: 1, Available: 0, which is unexpected"
		if b.Phase != v1.PodFailed || b.Reason != "UnexpectedAdmissionError" || b.Message != want {
			t.Errorf("b: %s %s %q", b.Phase, b.Reason, b.Message)
		}
		m.Gone(m.Find("ns", "a"))
		synctest.Wait()
		m.Set(widgetPod("c"))
		synctest.Wait()
		if got := phaseOf(m, "c"); got != v1.PodRunning {
			t.Errorf("c is %s: the device of a was not released", got)
		}
	})
}

func TestRejectedPodReleasesDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stop := runManager(t, newGate(t))
		defer stop()
		w := &widgets{free: 1, has: map[types.UID]bool{}}
		m.Devices, m.Node = w, nodeWithWidgets("1")
		pod := widgetPod("a")
		pod.Spec.NodeSelector = map[string]string{"no": "such"}
		m.Set(pod)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.free != 1 {
			t.Error("a pod that was rejected for another reason keeps its device")
		}
	})
}

func TestDeviceThatDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stop := runManager(t, newGate(t))
		defer stop()
		w := &widgets{free: 1, has: map[types.UID]bool{}}
		m.Devices, m.Node = w, nodeWithWidgets("1")
		pod := widgetPod("a")
		pod.Spec.Containers[0].Name = "broken"
		m.Set(pod)
		synctest.Wait()
		waiting := m.Find("ns", "a").Status.ContainerStatuses[0].State.Waiting
		if waiting == nil || waiting.Reason != "CreateContainerConfigError" {
			t.Errorf("state %v", waiting)
		}
		m.Synced()
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.kept != 1 {
			t.Errorf("Retain was called %d times", w.kept)
		}
	})
}

// oneClaim is a claim of all pods, whose driver may fail.
type oneClaim struct {
	mu    sync.Mutex
	fail  error
	users map[types.UID]bool
	calls []string
}

func (c *oneClaim) Prepare(_ context.Context, pod *v1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users[pod.UID] = true
	c.calls = append(c.calls, "prepare")
	return c.fail
}

func (c *oneClaim) Uses(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users[uid]
}

func (c *oneClaim) Unprepare(_ context.Context, uid types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, "unprepare")
	if c.fail == nil {
		delete(c.users, uid)
	}
	return c.fail
}

func (c *oneClaim) Container(*v1.Pod, *v1.Container) ([]string, error) {
	return []string{"example.com/gpu=0"}, nil
}

func (c *oneClaim) Health(*v1.Pod) map[string][]v1.ResourceStatus {
	return map[string][]v1.ResourceStatus{"c": {{Name: "claim:mine",
		Resources: []v1.ResourceHealth{{ResourceID: "gpu.example.com/p/d0", Health: v1.ResourceHealthStatusUnhealthy}}}}}
}

func (c *oneClaim) failWith(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

func TestClaimsOfPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &recordingEngine{gate: newGate(t)}
		m, stop := runManager(t, engine)
		defer stop()
		events := record.NewFakeRecorder(100)
		claims := &oneClaim{users: map[types.UID]bool{}, fail: errors.New("out of order")}
		m.Claims, m.Recorder = claims, events
		pod := simplePod("a")
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "mine", ResourceClaimName: ptr.To("claim")}}
		pod.Annotations = map[string]string{hollow.RunFor: "30s"}
		m.Set(pod)
		synctest.Wait()
		if got := phaseOf(m, "a"); got != v1.PodPending || len(engine.specs) > 0 {
			t.Fatalf("a is %s, containers %d, though its claims are not prepared", got, len(engine.specs))
		}
		want := "Warning FailedPrepareDynamicResources Failed to prepare dynamic resources: out of order"
		if got := <-events.Events; got != want {
			t.Errorf("event %q, want %q", got, want)
		}
		claims.failWith(nil)
		time.Sleep(retryDelay + time.Second)
		synctest.Wait()
		if got := phaseOf(m, "a"); got != v1.PodRunning {
			t.Fatalf("a is %s", got)
		}
		if got := m.Find("ns", "a").Status.ContainerStatuses[0].AllocatedResourcesStatus; len(got) != 1 ||
			got[0].Name != "claim:mine" {
			t.Errorf("health %v", got)
		}
		if got := engine.specs[0].CDI; len(got) != 1 || got[0] != "example.com/gpu=0" {
			t.Errorf("CDI devices %v", got)
		}
		claims.failWith(errors.New("busy"))
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if got := phaseOf(m, "a"); got != v1.PodRunning {
			t.Errorf("a is %s before its claims are unprepared", got)
		}
		claims.failWith(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := phaseOf(m, "a"); got != v1.PodSucceeded || claims.Uses("a") {
			t.Errorf("a is %s, uses its claims: %v", got, claims.Uses("a"))
		}
	})
}
