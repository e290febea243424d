package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
)

// waitTimeout bounds how long a test waits for a condition.
const waitTimeout = 30 * time.Second

// rig is a whole kubelet on a hollow engine and an API in memory.
type rig struct {
	t      *testing.T
	client *fake.Clientset
	engine runtime.Engine
	stop   func()
}

// start runs a kubelet until its node is ready.
func start(t *testing.T, client *fake.Clientset, engine runtime.Engine) *rig {
	t.Helper()
	r := begin(t, client, engine, func(*Config) {})
	r.await("the node is ready", func() bool {
		node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
			return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
		})
	})
	return r
}

// begin runs a kubelet with a changed configuration.
func begin(t *testing.T, client *fake.Clientset, engine runtime.Engine, change func(*Config)) *rig {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := NewConfig()
	config.Client, config.Engine, config.Listener, config.HostnameOverride = client, engine, listener, "n1"
	config.Runtime, config.PodCIDR, config.Recorder = "hollow", "10.1.0.0/24", &record.FakeRecorder{}
	change(config)
	k, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	r := &rig{t: t, client: client, engine: engine}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
		case <-time.After(waitTimeout):
			t.Error("Run does not return")
		}
	}
	t.Cleanup(r.stop)
	return r
}

func newEngine() *hollow.Engine {
	return hollow.New(hollow.Options{Clock: clock.RealClock{}, CPUs: 4, MemoryBytes: 8 << 30})
}

func (r *rig) await(what string, condition func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(waitTimeout); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within %v: %s", waitTimeout, what)
		}
	}
}

func (r *rig) create(name string, change func(*v1.Pod)) *v1.Pod {
	r.t.Helper()
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), Generation: 1},
		Spec: v1.PodSpec{NodeName: "n1", RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{
			{Name: "c", Image: "image:1"},
		}},
	}
	if change != nil {
		change(p)
	}
	p, err := r.client.CoreV1().Pods("ns").Create(r.t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) pod(name string) *v1.Pod {
	p, err := r.client.CoreV1().Pods("ns").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

func (r *rig) awaitPhase(name string, phase v1.PodPhase) *v1.Pod {
	r.t.Helper()
	r.await(name+" is "+string(phase), func() bool {
		p := r.pod(name)
		return p != nil && p.Status.Phase == phase
	})
	return r.pod(name)
}

func TestPodRunsAndIsDeleted(t *testing.T) {
	r := start(t, fake.NewClientset(), newEngine())
	r.create("p", nil)
	p := r.awaitPhase("p", v1.PodRunning)
	if !strings.HasPrefix(p.Status.PodIP, "10.1.0.") || p.Status.HostIP == "" || !p.Status.ContainerStatuses[0].Ready {
		t.Errorf("status %+v", p.Status)
	}
	now, grace := metav1.Now(), int64(1)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	if _, err := r.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.await("the pod is gone from the API", func() bool { return r.pod("p") == nil })
	r.await("its containers are gone", func() bool {
		pods, err := r.engine.Pods(t.Context())
		return err == nil && len(pods) == 0
	})
}

// late is an engine that answers with what was true a while ago.
type late struct {
	*hollow.Engine
	sandboxes, containers, stops atomic.Int32
}

func (l *late) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	pod, err := l.Engine.Pod(ctx, uid)
	time.Sleep(5 * time.Millisecond)
	return pod, err
}

func (l *late) CreateSandbox(ctx context.Context, spec *runtime.SandboxSpec) (string, error) {
	l.sandboxes.Add(1)
	return l.Engine.CreateSandbox(ctx, spec)
}

func (l *late) CreateContainer(ctx context.Context, spec *runtime.ContainerSpec) (string, error) {
	l.containers.Add(1)
	return l.Engine.CreateContainer(ctx, spec)
}

func (l *late) Stop(ctx context.Context, id string, grace time.Duration) error {
	l.stops.Add(1)
	return l.Engine.Stop(ctx, id, grace)
}

func TestNothingIsDoneTwiceOnAnEngineThatAnswersLate(t *testing.T) {
	engine := &late{Engine: newEngine()}
	r := start(t, fake.NewClientset(), engine)
	const pods = 10
	for i := range pods {
		r.create(fmt.Sprint("p", i), nil)
	}
	for i := range pods {
		p := r.awaitPhase(fmt.Sprint("p", i), v1.PodRunning).DeepCopy()
		now, grace := metav1.Now(), int64(1)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
		if _, err := r.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods {
		r.await("the pod is gone", func() bool { return r.pod(fmt.Sprint("p", i)) == nil })
	}
	if s, c, k := engine.sandboxes.Load(), engine.containers.Load(), engine.stops.Load(); s != pods || c != pods ||
		k != 2*pods {
		t.Errorf("%d sandboxes, %d containers, %d stops for %d pods", s, c, k, pods)
	}
}

func TestPodRunsToCompletion(t *testing.T) {
	r := start(t, fake.NewClientset(), newEngine())
	for name, code := range map[string]string{"good": "0", "bad": "3"} {
		r.create(name, func(p *v1.Pod) {
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			p.Annotations = map[string]string{hollow.RunFor: "20ms", hollow.ExitCode: code}
		})
	}
	if p := r.awaitPhase("good",
		v1.PodSucceeded); p.Status.ContainerStatuses[0].State.Terminated.Reason != "Completed" {
		t.Errorf("status %+v", p.Status)
	}
	if p := r.awaitPhase("bad", v1.PodFailed); p.Status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
		t.Errorf("status %+v", p.Status)
	}
}

// deaf is an engine that does what it is asked for, but whose answers to starts are lost.
type deaf struct{ *hollow.Engine }

func (d *deaf) Start(ctx context.Context, id string) error {
	if err := d.Engine.Start(ctx, id); err != nil {
		return err
	}
	return errors.New("unexpected EOF")
}

// How a container ended is what counts, also if its start was taken for a failure.
func TestPodRunsToCompletionThoughTheAnswerToItsStartIsLost(t *testing.T) {
	r := start(t, fake.NewClientset(), &deaf{newEngine()})
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure} {
		r.create(strings.ToLower(string(policy)), func(p *v1.Pod) {
			p.Spec.RestartPolicy = policy
			p.Annotations = map[string]string{hollow.RunFor: "20ms"}
		})
	}
	for _, name := range []string{"never", "onfailure"} {
		r.await(name+" is over", func() bool {
			p := r.pod(name).Status.Phase
			return p == v1.PodSucceeded ||
				p == v1.PodFailed
		})
		if s := r.pod(name).Status; s.Phase != v1.PodSucceeded || s.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	r.create("stays", nil)
	p := r.awaitPhase("stays", v1.PodRunning)
	if cs := p.Status.ContainerStatuses[0]; cs.State.Running == nil {
		t.Errorf("status %+v", cs)
	}
}

func TestCrashingContainersBackOff(t *testing.T) {
	r := start(t, fake.NewClientset(), newEngine())
	r.create("p", func(p *v1.Pod) {
		p.Annotations = map[string]string{hollow.RunFor: "5ms", hollow.ExitCode: "1"}
	})
	r.await("the container waits after one restart", func() bool {
		p := r.pod("p")
		if len(p.Status.ContainerStatuses) == 0 {
			return false
		}
		cs := p.Status.ContainerStatuses[0]
		return cs.RestartCount == 1 && cs.State.Waiting != nil && cs.State.Waiting.Reason == "CrashLoopBackOff" &&
			cs.LastTerminationState.Terminated != nil
	})
}

func TestPodsSurviveARestartAndLeftoversDoNot(t *testing.T) {
	client, engine := fake.NewClientset(), newEngine()
	first := start(t, client, engine)
	first.create("stays", nil)
	first.create("goes", nil)
	first.awaitPhase("stays", v1.PodRunning)
	first.awaitPhase("goes", v1.PodRunning)
	first.stop()
	before, err := engine.Pod(t.Context(), "uid-stays")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Pods("ns").Delete(t.Context(), "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := start(t, client, engine)
	second.await("the deleted pod's containers are gone", func() bool {
		left, err := engine.Pod(t.Context(), "uid-goes")
		return err == nil && len(left.Containers)+len(left.Sandboxes) == 0
	})
	after, err := engine.Pod(t.Context(), "uid-stays")
	if err != nil || len(after.Containers) != 1 || after.Containers[0] != before.Containers[0] ||
		after.Sandboxes[0].State != runtime.Running {
		t.Errorf("before %+v, after %+v, %v", before, after, err)
	}
}

func TestPodsThatDoNotFitAreRejected(t *testing.T) {
	r := start(t, fake.NewClientset(), newEngine())
	r.create("big", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("5")}
	})
	r.create("absurd", func(p *v1.Pod) { // to compare it digit by digit never ends
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1e999999999")}
	})
	if p := r.awaitPhase("absurd", v1.PodFailed); p.Status.Reason != "OutOfcpu" {
		t.Errorf("status %+v", p.Status)
	}
	r.create("elsewhere", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	if p := r.awaitPhase("big", v1.PodFailed); p.Status.Reason != "OutOfcpu" ||
		!strings.Contains(p.Status.Message, "requested: 5000, used: 0, capacity: 4000") {
		t.Errorf("status %+v", p.Status)
	}
	if p := r.awaitPhase("elsewhere", v1.PodFailed); p.Status.Reason != "NodeAffinity" {
		t.Errorf("status %+v", p.Status)
	}
	if pods, err := r.engine.Pods(t.Context()); err != nil || len(pods) != 0 {
		t.Errorf("rejected pods have containers: %+v, %v", pods, err)
	}
}

func TestLease(t *testing.T) {
	r := start(t, fake.NewClientset(), newEngine())
	r.await("the lease is held", func() bool {
		lease, err := r.client.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(t.Context(), "n1",
			metav1.GetOptions{})
		return err == nil && *lease.Spec.HolderIdentity == "n1" && *lease.Spec.LeaseDurationSeconds == 40 &&
			len(lease.OwnerReferences) == 1
	})
}

func TestManyKubeletsInOneProcess(t *testing.T) {
	for range 20 {
		start(t, fake.NewClientset(), newEngine())
	}
}

func TestConfigFile(t *testing.T) {
	header := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for name, test := range map[string]struct {
		file, flags, fails string
		check              func(*Config) bool
	}{
		"taken over": {file: "maxPods: 7\nclusterDNS: [10.0.0.10]\ncrashLoopBackOff: {maxContainerRestartPeriod: " +
			"20s}\nauthorization: {mode: AlwaysAllow}\n", check: func(c *Config) bool {
			return c.MaxPods == 7 && c.ClusterDNS[0] == "10.0.0.10" && c.MaxRestartPeriod == 20*time.Second &&
				c.AuthorizationMode == "AlwaysAllow"
		}},
		"flags win": {file: "maxPods: 7\n", flags: "--max-pods=9",
			check: func(c *Config) bool { return c.MaxPods == 9 }},
		"zeros ask nothing": {file: "evictionPressureTransitionPeriod: 0s\nlogging: {flushFrequency: 0}\n",
			check: func(c *Config) bool { return c.MaxPods == 110 }},
		"static pods": {file: "staticPodPath: /m\nfileCheckFrequency: 3s\nstaticPodURL: http://x\n" +
			"staticPodURLHeader: {A: [b]}\nhttpCheckFrequency: 4s\n", check: func(c *Config) bool {
			return c.PodManifestPath == "/m" && c.FileCheckFrequency == 3*time.Second && c.ManifestURL == "http://x" &&
				c.ManifestURLHeader["A"][0] == "b" && c.HTTPCheckFrequency == 4*time.Second
		}},
		"static pods by flags": {flags: "--pod-manifest-path=/m --manifest-url=http://x --manifest-url-header=A:b,C:d",
			check: func(c *Config) bool {
				return c.PodManifestPath == "/m" && c.ManifestURL == "http://x" && c.ManifestURLHeader["C"][0] == "d"
			}},
		"thresholds take the place of the defaults": {file: "evictionHard: {memory.available: 1Mi}\n",
			check: func(c *Config) bool { return len(c.EvictionHard) == 1 }},
		"thresholds merged with the defaults": {
			file: "evictionHard: {memory.available: 1Mi}\nmergeDefaultEvictionSettings: true\n",
			check: func(c *Config) bool {
				return len(c.EvictionHard) == 5 && c.EvictionHard["memory.available"] == "1Mi"
			}},
		"thresholds by flags": {file: "evictionHard: {memory.available: 1Mi}\n",
			flags: "--eviction-hard=nodefs.available<1%,pid.available<5",
			check: func(c *Config) bool { return len(c.EvictionHard) == 2 && c.EvictionHard["pid.available"] == "5" }},
		"no thresholds": {flags: "--eviction-hard=", check: func(c *Config) bool { return len(c.EvictionHard) == 0 }},
		"soft thresholds": {file: "evictionSoft: {memory.available: 1Mi}\n",
			fails: "grace period must be specified for the soft eviction threshold memory.available"},
		"unknown field":     {file: "maxPodz: 7\n", fails: "maxPodz"},
		"unsupported field": {file: "cpuManagerPolicy: static\n", fails: "cpuManagerPolicy is not supported"},
		"bad value":         {file: "authorization: {mode: Maybe}\n", fails: `"Maybe"`},
	} {
		t.Run(name, func(t *testing.T) {
			config := NewConfig()
			config.Client = fake.NewClientset()
			flags := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
			config.AddFlags(flags)
			if err := flags.Parse(strings.Fields(test.flags)); err != nil {
				t.Fatal(err)
			}
			config.ConfigFile = filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(config.ConfigFile, []byte(header+test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			k, err := New(*config)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("got %v, want %q", err, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !test.check(&k.config) {
				t.Errorf("got %+v", k.config)
			}
		})
	}
}

func TestBadFlagsAreNamed(t *testing.T) {
	for flag, want := range map[string]string{
		"--node-ip=x": "--node-ip", "--runtime=rkt": "--runtime", "--cluster-dns=x": "--cluster-dns",
		"--tls-cert-file=x":          "--tls-private-key-file",
		"--container-log-max-size=x": "", "--max-pods=-1": "--max-pods",
	} {
		config := NewConfig()
		config.Client = fake.NewClientset()
		flags := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
		config.AddFlags(flags)
		if err := flags.Parse([]string{flag}); err != nil {
			t.Errorf("%s: %v", flag, err)
			continue
		}
		if _, err := New(*config); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	flags := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	NewConfig().AddFlags(flags)
	if err := flags.Parse([]string{"--no-such-flag"}); err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("unknown flag: %v", err)
	}
	if err := flags.Parse([]string{"--register-with-taints=a=b:Sometimes"}); err == nil ||
		!strings.Contains(err.Error(), "Sometimes") {
		t.Errorf("bad taint: %v", err)
	}
}
