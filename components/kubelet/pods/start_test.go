package pods

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
)

// simulated is what the hollow engine simulates.
var simulated = runtime.Simulated{Files: true, Processes: true, Network: true}

// newStarter makes a starter for a pod of which nothing was started yet, in sandbox "s", but for the container "c".
func newStarter(config Config, pod *v1.Pod) *starter {
	return &starter{
		operations: &operations{Config: &config, uid: pod.UID}, pod: pod, sandbox: &runtime.Sandbox{ID: "s"},
		prepared: map[string]prepared{"c": {id: "id", sandbox: "s"}}, tell: func(result) {},
	}
}

// logTo is ctx with a logger that writes to w.
func logTo(ctx context.Context, w io.Writer) context.Context {
	return klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(w))))
}

// broken is an engine that can't start anything.
type broken struct {
	runtime.Engine
	left runtime.State // of containers whose start failed
}

func (b broken) Pod(context.Context, types.UID) (runtime.Pod, error) {
	return runtime.Pod{Containers: []runtime.Container{{Name: "c", State: b.left}}}, nil
}

func (broken) Start(context.Context, string) error { return errors.New("no space left on device") }

func (broken) CreateSandbox(context.Context, *runtime.SandboxSpec) (string, error) {
	return "", errors.New("no address left")
}

// A failed start is reported in an event, for users, and in the log, for the node's administrator.
func TestFailedStartsAreToldOf(t *testing.T) {
	events := record.NewFakeRecorder(10)
	ready := make(chan struct{})
	close(ready)
	config := Config{
		Engine: broken{}, Builder: &spec.Builder{Simulated: simulated}, Recorder: events, Clock: clock.RealClock{},
		NetworkReady: ready,
	}
	var log bytes.Buffer
	ctx := logTo(t.Context(), &log)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	start := newStarter(config, pod)
	for _, test := range []struct {
		act   func()
		event string
		log   []string
	}{
		{
			act:   func() { start.createSandbox(ctx, 0) },
			event: "Warning FailedCreatePodSandBox Failed to create pod sandbox: no address left",
			log:   []string{"no address left", `pod="ns/p"`},
		},
		{
			act: func() {
				start.createSandbox(ctx, 1)
				changed := <-events.Events
				<-events.Events // that it failed
				events.Events <- changed
			},
			event: "Normal SandboxChanged Pod sandbox changed, it will be killed and re-created.",
		},
		{
			act:   func() { start.start(ctx, plan.Action{Kind: plan.StartContainer, Name: "c"}) },
			event: "Warning Failed Error: no space left on device",
			log:   []string{"no space left on device", `pod="ns/p"`, `container="c"`, `reason="RunContainerError"`},
		},
	} {
		log.Reset()
		test.act()
		select {
		case got := <-events.Events:
			if got != test.event {
				t.Errorf("event %q, want %q", got, test.event)
			}
		default:
			t.Errorf("no event, want %q", test.event)
		}
		for _, want := range test.log {
			if !strings.Contains(log.String(), want) {
				t.Errorf("log %q lacks %q", log.String(), want)
			}
		}
	}
}

// A start that the engine refuses without taking note of it is tried again after a while, not at once and for ever;
// what the engine noted is left to the back-off of containers that end.
func TestRefusedStartsWait(t *testing.T) {
	for left, waits := range map[runtime.State]bool{runtime.Created: true, runtime.Exited: false,
		runtime.Running: false} {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
		start := newStarter(Config{
			Engine: broken{left: left}, Builder: &spec.Builder{Simulated: simulated}, Recorder: &record.FakeRecorder{},
			Clock: clock.RealClock{},
		}, pod)
		r := start.start(t.Context(), plan.Action{Kind: plan.StartContainer, Name: "c"})
		if got := !r.retryAt.IsZero(); !r.failed || got != waits {
			t.Errorf("%s: waits: %v, want %v", left, got, waits)
		}
	}
}
