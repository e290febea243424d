package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/objects"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/status"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// call is a call of the engine, or the answer to one, that waits until the test lets it go on.
type call struct {
	uid  types.UID
	what string
	done chan error // the answer to give without doing anything, nil to do it
}

// gate is a hollow engine whose calls and answers wait for the test while hold says so. A call whose context has ended
// does nothing, as with an engine that is asked over HTTP.
type gate struct {
	*hollow.Engine
	hold func(uid types.UID, what string) bool
	did  func(uid types.UID, what, id string) // called as something is done

	mu      sync.Mutex
	waiting []*call
	owner   map[string]types.UID // of each container and sandbox
	names   map[string]string    // what each is, as "pod/attempt" or "pod/name/attempt"
}

var errRefused = errors.New("the engine refuses")

func newGate(t *testing.T) *gate {
	engine := hollow.New(hollow.Options{Clock: clock.RealClock{}, CPUs: 4, MemoryBytes: 8 << 30})
	if err := engine.SetPodCIDRs(t.Context(), []string{"10.1.0.0/24"}); err != nil {
		t.Fatal(err)
	}
	return &gate{
		Engine: engine, owner: map[string]types.UID{}, names: map[string]string{},
		hold: func(types.UID, string) bool { return false }, did: func(types.UID, string, string) {},
	}
}

// pass waits for the test.
func (g *gate) pass(ctx context.Context, uid types.UID, what string) error {
	g.mu.Lock()
	hold := g.hold
	g.mu.Unlock()
	if hold(uid, what) {
		c := &call{uid: uid, what: what, done: make(chan error)}
		g.mu.Lock()
		g.waiting = append(g.waiting, c)
		g.mu.Unlock()
		if err := <-c.done; err != nil {
			return err
		}
	}
	return ctx.Err()
}

// holdBack makes calls and answers wait from now on while hold says so.
func (g *gate) holdBack(hold func(uid types.UID, what string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold = hold
}

// held takes one of the calls that wait; nil if there is none.
func (g *gate) held(choose func(n int) int) *call {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return nil
	}
	i := choose(len(g.waiting))
	c := g.waiting[i]
	g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
	return c
}

func (g *gate) note(id string, uid types.UID, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owner[id], g.names[id] = uid, name
}

func (g *gate) known(id string) (types.UID, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owner[id], g.names[id]
}

// do does something for a pod once the test lets it, and gives the answer once the test lets that come. An answer that
// is refused is lost.
func do[T any](ctx context.Context, g *gate, uid types.UID, what, id string, act func() (T, error)) (T, error) {
	var none T
	if err := g.pass(ctx, uid, what); err != nil {
		return none, err
	}
	g.did(uid, what, id)
	answer, err := act()
	if lost := g.pass(ctx, uid, what+" done"); lost != nil {
		return none, lost
	}
	return answer, err
}

func (g *gate) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	return do(ctx, g, uid, "inspect", "", func() (runtime.Pod, error) { return g.Engine.Pod(ctx, uid) })
}

func (g *gate) CreateSandbox(ctx context.Context, s *runtime.SandboxSpec) (string, error) {
	return do(ctx, g, s.Pod.UID, "sandbox", "", func() (string, error) {
		id, err := g.Engine.CreateSandbox(ctx, s)
		g.note(id, s.Pod.UID, fmt.Sprintf("%s/%d", s.Pod.UID, s.Attempt))
		g.did(s.Pod.UID, "start", id)
		return id, err
	})
}

func (g *gate) CreateContainer(ctx context.Context, s *runtime.ContainerSpec) (string, error) {
	return do(ctx, g, s.Pod.UID, "create", "", func() (string, error) {
		id, err := g.Engine.CreateContainer(ctx, s)
		g.note(id, s.Pod.UID, fmt.Sprintf("%s/%s/%d", s.Pod.UID, s.Name, s.Attempt))
		return id, err
	})
}

// doID does something to a container or sandbox.
func (g *gate) doID(ctx context.Context, what, id string, act func() error) error {
	uid, _ := g.known(id)
	_, err := do(ctx, g, uid, what, id, func() (struct{}, error) { return struct{}{}, act() })
	return err
}

func (g *gate) Start(ctx context.Context, id string) error {
	return g.doID(ctx, "start", id, func() error { return g.Engine.Start(ctx, id) })
}

func (g *gate) Stop(ctx context.Context, id string, grace time.Duration) error {
	return g.doID(ctx, "stop", id, func() error { return g.Engine.Stop(ctx, id, grace) })
}

func (g *gate) Remove(ctx context.Context, id string) error {
	return g.doID(ctx, "remove", id, func() error { return g.Engine.Remove(ctx, id) })
}

func (g *gate) Logs(ctx context.Context, id string, options runtime.LogOptions, stdout, stderr io.Writer) error {
	return g.doID(ctx, "logs", id, func() error { return g.Engine.Logs(ctx, id, options, stdout, stderr) })
}

// runManager runs a manager in a bubble until the function that it returns is called.
func runManager(t *testing.T, engine runtime.Engine) (*Manager, func()) {
	t.Helper()
	return runWithVolumes(t, engine, nil)
}

func runWithVolumes(t *testing.T, engine runtime.Engine, made *volumes.Manager) (*Manager, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := fake.NewClientset()
	ready := make(chan struct{})
	close(ready)
	writer := status.NewWriter(client, clock.RealClock{})
	watches := &objects.Watches{Client: func() kubernetes.Interface { return client }}
	m := New(Config{
		Engine: engine, Builder: &spec.Builder{Simulated: simulated}, Recorder: &record.FakeRecorder{},
		Clock:   clock.RealClock{},
		Objects: objects.New(client, watches, func([]types.UID) {}), Status: writer, NetworkReady: ready,
		Images: &images.Puller{Images: engine, Clock: clock.RealClock{},
			Limits: plan.Limits{Initial: time.Second, Max: time.Minute}},
		Limits: plan.Limits{Initial: time.Second, Max: time.Minute}, Node: func() *v1.Node { return nil },
		HostIPs: []string{"127.0.0.1"}, RuntimeName: "hollow", Resync: time.Minute, Relist: 30 * time.Second,
		Volumes: made,
	})
	var wait sync.WaitGroup
	wait.Go(func() { writer.Run(ctx, 1) })
	wait.Go(func() { m.Run(ctx) })
	m.Synced()
	synctest.Wait()
	return m, func() {
		cancel()
		wait.Wait()
	}
}

func simplePod(uid types.UID) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uid), UID: uid, Generation: 1,
			ResourceVersion: "1"},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "c", Image: "image:1"}},
		},
	}
}

func phaseOf(m *Manager, uid types.UID) v1.PodPhase {
	if pod := m.Find("ns", string(uid)); pod != nil {
		return pod.Status.Phase
	}
	return ""
}

// applyResult waits for a result of a worker that takes no turns, and applies it.
func applyResult(t *testing.T, w *worker) {
	t.Helper()
	for t.Context().Err() == nil {
		work, _ := w.inbox.take()
		for _, m := range work.results {
			m.apply(t.Context(), w)
		}
		if len(work.results) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
