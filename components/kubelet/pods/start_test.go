package pods

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
)

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

// What can't be started is told of in an event, for users, and in the log, for whoever looks at the node.
func TestFailedStartsAreToldOf(t *testing.T) {
	events := record.NewFakeRecorder(10)
	ready := make(chan struct{})
	close(ready)
	m := New(Config{
		Engine: broken{}, Builder: &spec.Builder{Virtual: true}, Recorder: events, Clock: clock.RealClock{}, NetworkReady: ready,
	})
	var log bytes.Buffer
	w := newWorker(m, "u")
	w.logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	for _, test := range []struct {
		act   func()
		event string
		log   []string
	}{
		{
			act:   func() { w.createSandbox(t.Context(), pod, 0, false) },
			event: "Warning FailedCreatePodSandBox Failed to create pod sandbox: no address left",
			log:   []string{"no address left", `pod="ns/p"`},
		},
		{
			act: func() {
				w.createSandbox(t.Context(), pod, 1, false)
				changed := <-events.Events
				<-events.Events // that it failed
				events.Events <- changed
			},
			event: "Normal SandboxChanged Pod sandbox changed, it will be killed and re-created.",
		},
		{
			act: func() {
				w.prepared["c"] = prepared{id: "id", sandbox: "s"}
				w.start(t.Context(), pod, &runtime.Sandbox{ID: "s"}, plan.Action{Kind: plan.StartContainer, Name: "c"})
			},
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

// A start that the engine refuses without taking note of it is tried again after a while, not at once and for ever; what the
// engine noted is left to the back-off of containers that end.
func TestRefusedStartsWait(t *testing.T) {
	for left, waits := range map[runtime.State]bool{runtime.Created: true, runtime.Exited: false, runtime.Running: false} {
		w := newWorker(New(Config{
			Engine: broken{left: left}, Builder: &spec.Builder{Virtual: true}, Recorder: &record.FakeRecorder{}, Clock: clock.RealClock{},
		}), "u")
		w.prepared["c"] = prepared{id: "id", sandbox: "s"}
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
		w.start(t.Context(), pod, &runtime.Sandbox{ID: "s"}, plan.Action{Kind: plan.StartContainer, Name: "c"})
		if got := !w.notBefore["c"].IsZero(); got != waits {
			t.Errorf("%s: waits: %v, want %v", left, got, waits)
		}
	}
}
