package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
)

// moment is when a kubelet dies: right before an outward call, or right after it took effect and before its answer.
type moment struct {
	call  string // what is called and how often it was before, as "start p/main#0"
	after bool
}

func (m moment) String() string {
	if m.after {
		return "after " + m.call
	}
	return "before " + m.call
}

// boundary is what kubelets of one node reach outside of themselves: engine, drivers and API. It outlives them.
type boundary struct {
	engine *hollow.Engine
	client *fake.Clientset

	mu     sync.Mutex
	deaths []moment // each kubelet dies at the first one, if it comes to that; the next kubelet at the next one
	counts map[string]int
	calls  []string          // all that were made, in their order
	names  map[string]string // of each container, as "pod/name#attempt"
	starts map[string]int    // by such a name
}

// errDead is what a call of a dead kubelet returns, once the test lets it go.
var errDead = errors.New("the kubelet is dead")

// incarnation is a kubelet's side of the boundary.
type incarnation struct {
	*boundary
	death   *moment
	dead    chan struct{} // closed when it died
	release chan struct{} // closed when its goroutines may end
}

func (b *boundary) incarnate() *incarnation {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := &incarnation{boundary: b, dead: make(chan struct{}), release: make(chan struct{})}
	if len(b.deaths) > 0 {
		i.death, b.deaths = &b.deaths[0], b.deaths[1:]
	}
	return i
}

func (i *incarnation) isDead() bool {
	select {
	case <-i.dead:
		return true
	default:
		return false
	}
}

// stay holds the goroutine of a dead kubelet.
func (i *incarnation) stay() error {
	<-i.release
	return errDead
}

// pass makes a call that changes something outside.
func (i *incarnation) pass(what string, act func() error) error {
	i.mu.Lock()
	if i.isDead() {
		i.mu.Unlock()
		return i.stay()
	}
	call := fmt.Sprintf("%s#%d", what, i.counts[what])
	i.counts[what]++
	dies := i.death != nil && i.death.call == call
	if dies && !i.death.after {
		close(i.dead)
		i.mu.Unlock()
		return i.stay()
	}
	i.calls = append(i.calls, call)
	i.mu.Unlock()
	err := act()
	i.mu.Lock()
	if dies && !i.isDead() {
		close(i.dead)
	}
	dead := i.isDead()
	i.mu.Unlock()
	if dead {
		return i.stay()
	}
	return err
}

// read makes a call that changes nothing.
func read[T any](i *incarnation, act func() (T, error)) (T, error) {
	answer, err := act()
	if i.isDead() {
		var none T
		return none, i.stay()
	}
	return answer, err
}

// intercept is the boundary towards drivers. Calls that change nothing are those that Get something.
func (i *incarnation) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	act := func() error { return invoke(ctx, method, request, reply, conn, options...) }
	name := method[strings.LastIndex(method, "/")+1:]
	if strings.HasPrefix(name, "NodeGet") {
		_, err := read(i, func() (struct{}, error) { return struct{}{}, act() })
		return err
	}
	return i.pass(name, act)
}

// boundEngine is the boundary towards the engine, whose containers have files and processes for all that the kubelet
// knows.
type boundEngine struct {
	*hollow.Engine
	i *incarnation
}

func (e *boundEngine) Info(ctx context.Context) (runtime.Info, error) {
	info, err := e.Engine.Info(ctx)
	info.Simulated = runtime.Simulated{Network: true}
	return info, err
}

func (e *boundEngine) Pods(ctx context.Context) ([]runtime.Pod, error) {
	return read(e.i, func() ([]runtime.Pod, error) { return e.Engine.Pods(ctx) })
}

func (e *boundEngine) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	return read(e.i, func() (runtime.Pod, error) { return e.Engine.Pod(ctx, uid) })
}

func (e *boundEngine) CreateSandbox(ctx context.Context, s *runtime.SandboxSpec) (id string, err error) {
	err = e.i.pass("sandbox "+s.Pod.Name, func() error {
		id, err = e.Engine.CreateSandbox(ctx, s)
		e.i.name(id, fmt.Sprintf("%s/sandbox", s.Pod.Name), s.Attempt)
		return err
	})
	return id, err
}

// CreateContainer makes containers called init run for a second, and those called main of pods called job for two.
func (e *boundEngine) CreateContainer(ctx context.Context, s *runtime.ContainerSpec) (id string, err error) {
	scripted := *s
	switch {
	case s.Name == "init":
		scripted.Annotations = map[string]string{hollow.RunFor: "1s"}
	case s.Name == "main" && s.Pod.Name == "job":
		scripted.Annotations = map[string]string{hollow.RunFor: "2s"}
	}
	name := s.Pod.Name + "/" + s.Name
	err = e.i.pass("create "+name, func() error {
		id, err = e.Engine.CreateContainer(ctx, &scripted)
		e.i.name(id, name, s.Attempt)
		return err
	})
	return id, err
}

func (e *boundEngine) Start(ctx context.Context, id string) error {
	name := e.i.named(id)
	return e.i.pass("start "+name, func() error {
		e.i.mu.Lock()
		e.i.starts[name]++
		e.i.mu.Unlock()
		return e.Engine.Start(ctx, id)
	})
}

func (e *boundEngine) Stop(ctx context.Context, id string, grace time.Duration) error {
	return e.i.pass("stop "+e.i.named(id), func() error { return e.Engine.Stop(ctx, id, grace) })
}

func (e *boundEngine) Remove(ctx context.Context, id string) error {
	return e.i.pass("remove "+e.i.named(id), func() error { return e.Engine.Remove(ctx, id) })
}

// Exec runs what hooks and probes ask for. A kubelet does not die at a probe, which changes nothing.
func (e *boundEngine) Exec(_ context.Context, id string, o runtime.ExecOptions) (int, error) {
	if o.Command[0] == "probe" {
		return read(e.i, func() (int, error) { return 0, nil })
	}
	return 0, e.i.pass("exec "+o.Command[0]+" "+e.i.named(id), func() error { return nil })
}

func (b *boundary) name(id, name string, attempt int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names[id] = fmt.Sprintf("%s:%d", name, attempt)
}

func (b *boundary) named(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.names[id]
}

// boundClient is the boundary towards the API: writes to pods pass it.
type boundClient struct {
	*fake.Clientset
	i *incarnation
}

func (c *boundClient) CoreV1() typedcorev1.CoreV1Interface {
	return &boundCore{CoreV1Interface: c.Clientset.CoreV1(), i: c.i}
}

type boundCore struct {
	typedcorev1.CoreV1Interface
	i *incarnation
}

func (c *boundCore) Pods(namespace string) typedcorev1.PodInterface {
	return &boundPods{PodInterface: c.CoreV1Interface.Pods(namespace), i: c.i}
}

type boundPods struct {
	typedcorev1.PodInterface
	i *incarnation
}

func (p *boundPods) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions,
	subresources ...string) (pod *v1.Pod, err error) {
	err = p.i.pass("patch "+name, func() error {
		pod, err = p.PodInterface.Patch(ctx, name, kind, data, o, subresources...)
		return err
	})
	return pod, err
}

func (p *boundPods) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return p.i.pass("delete "+name, func() error { return p.PodInterface.Delete(ctx, name, o) })
}
