package pods

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
	"quintet.dev/quintet/components/kubelet/spec"
)

// portSpy notes the addresses of pods whose ports are opened, or fails.
type portSpy struct {
	failure error
	set     []string
}

func (s *portSpy) Set(_ context.Context, pod *runtime.Pod) error {
	if s.failure == nil {
		s.set = append(s.set, pod.Sandbox().IPs...)
	}
	return s.failure
}

func (*portSpy) Forget(context.Context, types.UID) error { return nil }

func (*portSpy) Sync(context.Context, []runtime.Pod) error { return nil }

// A sandbox has its host ports before its containers start; one that can't have them is removed and reported.
func TestSandboxGetsHostPorts(t *testing.T) {
	ready := make(chan struct{})
	close(ready)
	for name, test := range map[string]struct {
		port    int32
		failure error
		set     []string
		event   string
	}{
		"opened":              {port: 80, set: []string{"10.1.0.2"}},
		"failed":              {port: 80, failure: errors.New("no nft"), event: "Failed to create pod sandbox: no nft"},
		"none, though broken": {port: 0, failure: errors.New("no nft")},
	} {
		t.Run(name, func(t *testing.T) {
			engine, events := hollow.New(hollow.Options{Clock: clock.RealClock{}}), record.NewFakeRecorder(10)
			ports := &portSpy{failure: test.failure}
			if err := engine.SetPodCIDRs(t.Context(), []string{"10.1.0.0/24"}); err != nil {
				t.Fatal(err)
			}
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
			pod.Spec.Containers = []v1.Container{
				{Name: "c", Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: test.port}}},
			}
			start := newStarter(Config{
				Engine: engine, Builder: &spec.Builder{Simulated: simulated}, Recorder: events,
				Clock:        clock.RealClock{},
				NetworkReady: ready, HostPorts: ports,
			}, pod)
			start.createSandbox(logTo(t.Context(), io.Discard), 0)
			observed, err := engine.Pod(t.Context(), "u")
			if err != nil {
				t.Fatal(err)
			}
			if runs := observed.Sandbox() != nil; runs != (test.event == "") {
				t.Errorf("the sandbox runs: %v", runs)
			}
			if !slices.Equal(ports.set, test.set) {
				t.Errorf("set are %q, want %q", ports.set, test.set)
			}
			select {
			case got := <-events.Events:
				if test.event == "" || !strings.HasSuffix(got, test.event) {
					t.Errorf("event %q, want %q", got, test.event)
				}
			default:
				if test.event != "" {
					t.Errorf("no event, want %q", test.event)
				}
			}
		})
	}
}
