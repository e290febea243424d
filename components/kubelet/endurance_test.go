package kubelet

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/kubelet/pluginwatcher"
)

// TestKubeletDiesAtEveryCall runs the whole life of pods once for each call that the kubelet makes of the engine, of
// drivers and of the API: the kubelet dies right before the call, or right after it took effect, and another one takes
// over what is there. However that is, the pods become what they should, no container is started twice, and nothing is
// left once they are deleted.
func TestKubeletDiesAtEveryCall(t *testing.T) {
	for _, name := range []string{"service", "job"} {
		var calls []string
		if !t.Run(name, func(t *testing.T) { calls = endure(t, name) }) {
			continue
		}
		if len(calls) < 20 { // what follows would prove little
			t.Errorf("%s: only %d calls: %q", name, len(calls), calls)
		}
		for i, call := range calls {
			if i%sample != 0 {
				continue
			}
			for _, after := range []bool{false, true} {
				first := moment{call, after}
				t.Run(name+" "+first.String(), func(t *testing.T) {
					t.Parallel()
					endure(t, name, first)
				})
			}
		}
	}
}

// TestKubeletsDieOneAfterTheOther has the kubelet that takes over die, too, at a quarter of the calls that come then.
func TestKubeletsDieOneAfterTheOther(t *testing.T) {
	for n, first := range []moment{
		{"sandbox service#0", true}, {"NodePublishVolume#0", true}, {"start service/main:0#0", true},
		{"stop service/main:0#0", false}, {"NodeUnpublishVolume#0", true}, {"NodeUnprepareResources#0", true},
	} {
		calls := endure(t, "service", first)
		for i, call := range calls[slices.Index(calls, first.call)+1:] {
			if i%(4*sample) != n%(4*sample) {
				continue
			}
			second := moment{call, i%8 < 4}
			t.Run(first.String()+", "+second.String(), func(t *testing.T) {
				t.Parallel()
				endure(t, "service", first, second)
			})
		}
	}
}

// endure runs the life of a pod under kubelets that die, and returns the calls they made.
func endure(t *testing.T, name string, deaths ...moment) (calls []string) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := newEnduringNode(t, root, deaths)
		n.live(name)
		n.stop()
		calls = n.calls
		if t.Failed() {
			t.Logf("calls:\n%s", strings.Join(calls, "\n"))
		}
	})
	return calls
}

// enduringNode is a node whose kubelets die and are replaced.
type enduringNode struct {
	*boundary
	t       *testing.T
	root    string
	driver  *enduring
	dial    grpc.DialOption
	kubelet *enduringKubelet // that is alive
	stops   []func()
}

func newEnduringNode(t *testing.T, root string, deaths []moment) *enduringNode {
	client := fake.NewClientset(enduranceObjects()...)
	client.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: "t", ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}}, nil
	})
	n := &enduringNode{
		t: t, root: root,
		boundary: &boundary{engine: newEngine(), client: client, deaths: deaths, counts: map[string]int{},
			names: map[string]string{}, starts: map[string]int{}},
		driver: &enduring{staged: map[string]string{}, published: map[string]string{}, prepared: map[string]bool{},
			done: map[string]int{}},
	}
	listener, stop := n.driver.serve()
	n.dial, n.stops = dialer(listener), append(n.stops, stop)
	n.begin()
	return n
}

// enduringKubelet is one kubelet of the node.
type enduringKubelet struct {
	*incarnation
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// begin starts a kubelet on what is there.
func (n *enduringNode) begin() {
	n.t.Helper()
	k := &enduringKubelet{incarnation: n.incarnate()}
	ctx, cancel := context.WithCancel(n.t.Context())
	k.cancel, n.kubelet = cancel, k
	config := NewConfig()
	config.Client = &boundClient{Clientset: n.client, i: k.incarnation}
	config.Engine = &boundEngine{n.engine, k.incarnation}
	config.HostnameOverride, config.NodeIP, config.EnableServer = "n1", "127.0.0.1", false
	config.Runtime, config.PodCIDR, config.Recorder = "hollow", "10.1.0.0/24", &record.FakeRecorder{}
	config.RootDir, config.PodLogsDir = filepath.Join(n.root, "kubelet"), filepath.Join(n.root, "logs")
	config.CgroupsPerQOS, config.EnforceNodeAllocatable, config.FailSwapOn = false, nil, false
	kubelet, err := New(*config)
	if err != nil {
		n.t.Fatal(err)
	}
	link, err := kubelet.connect(ctx, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	parts, err := kubelet.assemble(ctx, link, config.Engine)
	if err != nil {
		n.t.Fatal(err)
	}
	logs, err := kubelet.logs(config.Engine)
	if err != nil {
		n.t.Fatal(err)
	}
	logs.Links = filepath.Join(n.root, "links")
	parts.pods.Logs = logs
	for _, run := range []func(){
		func() { _ = parts.node.Run(ctx) }, func() { parts.writer.Run(ctx, statusWriters) }, func() { parts.pods.Run(ctx) },
		func() { parts.manifests.Run(ctx) }, func() { parts.mirrors.Run(ctx) }, func() { parts.follow(ctx, link) },
		func() { n.register(ctx, k, parts) },
	} {
		k.wait.Go(run)
	}
	n.stops = append(n.stops, func() {
		cancel()
		close(k.release)
		k.wait.Wait()
		parts.objects.Close()
		link.close()
	})
}

// register makes the node's drivers known to a kubelet, as its plug-in watcher does.
func (n *enduringNode) register(ctx context.Context, k *enduringKubelet, parts *parts) {
	select {
	case <-parts.node.Known():
	case <-ctx.Done():
		return
	}
	options := []grpc.DialOption{n.dial, grpc.WithUnaryInterceptor(k.intercept)}
	parts.storage.objects.Ensure(ctx)
	parts.storage.csi.Drivers.DialOptions, parts.storage.claims.Drivers.DialOptions = options, options
	for handler, plugin := range map[pluginwatcher.Handler]pluginwatcher.Plugin{
		parts.storage.csi.Drivers:    {Name: enduranceCSI, Endpoint: "/csi", Versions: []string{"1.0.0"}},
		parts.storage.claims.Drivers: {Name: enduranceDRA, Endpoint: "/dra", Versions: []string{drapb.DRAPluginService}},
	} {
		if err := handler.Register(ctx, plugin); err != nil && ctx.Err() == nil {
			n.t.Error(err)
		}
	}
	<-ctx.Done()
	parts.storage.claims.Drivers.Close()
}

// stop ends all kubelets; the dead ones' goroutines were held until now.
func (n *enduringNode) stop() {
	for _, stop := range slices.Backward(n.stops) {
		stop()
	}
	unmountAll(n.t, n.root)
}

// await lets time pass until a condition holds, and replaces kubelets that died.
func (n *enduringNode) await(what string, condition func() bool) {
	n.t.Helper()
	for deadline := time.Now().Add(20 * time.Minute); !condition(); time.Sleep(100 * time.Millisecond) {
		if n.kubelet.isDead() {
			n.kubelet.cancel()
			synctest.Wait()
			n.begin()
		}
		if time.Now().After(deadline) {
			n.t.Errorf("not in time: %s", what)
			return
		}
	}
}

// live is the life of a pod: it is created, does what it should, is deleted, and nothing of it is left.
func (n *enduringNode) live(name string) {
	pods := n.client.CoreV1().Pods("ns")
	if _, err := pods.Create(n.t.Context(), endurancePod(name), metav1.CreateOptions{}); err != nil {
		n.t.Fatal(err)
	}
	get := func() *v1.Pod {
		pod, err := pods.Get(n.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return pod
	}
	n.await("the pod does what it should", func() bool {
		pod := get()
		return pod != nil && (pod.Status.Phase == v1.PodSucceeded || isReady(pod))
	})
	n.await("a minute", func() func() bool {
		begun := time.Now()
		return func() bool { return time.Since(begun) > time.Minute }
	}())
	n.checkAlive(get())
	pod := get().DeepCopy()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](30)
	if _, err := pods.Update(n.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		n.t.Fatal(err)
	}
	n.await("the pod is gone", func() bool { return get() == nil })
	n.await("its containers are gone", func() bool {
		left, err := n.engine.Pods(n.t.Context())
		return err == nil && len(left) == 0
	})
	n.await("its directory is gone", func() bool { return len(n.files("kubelet/pods")) == 0 })
	n.checkGone()
}

func isReady(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// checkAlive checks what the API says of a pod that does what it should against what ran.
func (n *enduringNode) checkAlive(pod *v1.Pod) {
	n.t.Helper()
	phase := map[string]v1.PodPhase{"service": v1.PodRunning, "job": v1.PodSucceeded}[pod.Name]
	if pod.Status.Phase != phase {
		n.t.Errorf("the pod is %s: %+v", pod.Status.Phase, pod.Status)
	}
	for _, c := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		if c.RestartCount != 0 || phase == v1.PodRunning && (c.State.Running == nil) == (c.Name != "init") {
			n.t.Errorf("container %s: %+v", c.Name, c)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range []string{"init", "side", "main"} {
		if got := n.starts[pod.Name+"/"+name+":0"]; got != 1 {
			n.t.Errorf("%s was started %d times", name, got)
		}
	}
	if len(n.starts) != 3 {
		n.t.Errorf("starts %v", n.starts)
	}
	if phase == v1.PodRunning && (len(n.driver.published) != 1 || !n.driver.prepared["claim-uid"]) {
		n.t.Errorf("published %v, prepared %v", n.driver.published, n.driver.prepared)
	}
}

// checkGone checks that nothing is left of the pod.
func (n *enduringNode) checkGone() {
	n.t.Helper()
	d := n.driver
	if len(d.staged)+len(d.published)+len(d.prepared) > 0 {
		n.t.Errorf("staged %v, published %v, prepared %v", d.staged, d.published, d.prepared)
	}
	for _, err := range d.broken {
		n.t.Error(err)
	}
	for _, undone := range [][2]string{{"stage", "unstage"}, {"publish", "unpublish"}, {"prepare", "unprepare"}} {
		if d.done[undone[0]] == 0 || d.done[undone[1]] == 0 {
			n.t.Errorf("calls %v", d.done)
		}
	}
	for _, dir := range []string{"kubelet/pods", "kubelet/plugins/kubernetes.io/csi/" + enduranceCSI, "logs", "links"} {
		if left := n.files(dir); len(left) > 0 {
			n.t.Errorf("left in %s: %q", dir, left)
		}
	}
	for name, starts := range n.starts {
		if starts != 1 {
			n.t.Errorf("%s was started %d times", name, starts)
		}
	}
}

// files are what is below a directory.
func (n *enduringNode) files(dir string) []string {
	var found []string
	dir = filepath.Join(n.root, dir)
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != dir {
			found = append(found, fmt.Sprint(strings.TrimPrefix(path, dir)))
		}
		return nil
	})
	return found
}
