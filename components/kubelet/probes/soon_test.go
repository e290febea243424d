package probes

import (
	"net"
	"net/http"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// TestReadySoonAfterListening: readiness does not wait for a period while nothing listens.
func TestReadySoonAfterListening(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	listener.Close() // what serves there comes later
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	failed, changed := make(chan struct{}, 100), make(chan struct{}, 100)
	m := &Manager{Runner: &hooks.Runner{Clock: clock}, Clock: clock,
		Changed: func(types.UID) { changed <- struct{}{} },
		Record:  func(*v1.Pod, *v1.Container, string, string, string) { failed <- struct{}{} }}
	action := &v1.HTTPGetAction{Path: "/", Host: "127.0.0.1", Port: intstr.FromInt32(int32(address.Port))}
	probe := &v1.Probe{PeriodSeconds: 3600, ProbeHandler: v1.ProbeHandler{HTTPGet: action}}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", ReadinessProbe: probe}}}}
	observed := &runtime.Pod{Containers: []runtime.Container{{ID: "id", Name: "c", State: runtime.Running,
		Started: clock.Now()}}}
	m.Sync(t.Context(), pod, observed, false, nil)
	t.Cleanup(m.Wait)
	await := func(c <-chan struct{}) {
		t.Helper()
		for range 3000 {
			select {
			case <-c:
				return
			case <-time.After(10 * time.Millisecond):
				clock.Step(firstRetry / 10) // a period would take 360,000 steps
			}
		}
		t.Fatal("no attempt")
	}
	await(failed)
	again, err := net.Listen("tcp", address.String())
	if err != nil {
		t.Skipf("another has the port meanwhile: %v", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = server.Serve(again) }()
	defer server.Close()
	await(changed)
	if !m.Sync(t.Context(), pod, observed, false, nil).Ready["id"] {
		t.Error("it listens, and is not ready")
	}
	if len(failed) > 0 {
		t.Error("attempts between periods have events")
	}
}
