package devices

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/devices/devicetest"
	"quintet.dev/quintet/components/kubelet/pluginwatcher"
)

const widget = "example.com/widget"

// rig is a manager that runs in a directory of its own.
type rig struct {
	*Manager
	t     *testing.T
	clock *testclock.FakeClock
	wake  chan struct{}
	mu    sync.Mutex
	sick  []types.UID
	stop  func()
}

func newRig(t *testing.T, dir string) *rig {
	t.Helper()
	r := &rig{t: t, clock: testclock.NewFakeClock(time.Now()), wake: make(chan struct{}, 100)}
	r.Manager = &Manager{
		Dir: dir, Clock: r.clock, CapacityChanged: func() { r.wake <- struct{}{} },
		HealthChanged: func(uid types.UID) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sick = append(r.sick, uid)
		},
	}
	r.Open(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

// plugin starts and registers a plug-in, and waits until its devices are known.
func (r *rig) plugin(p *devicetest.Plugin, devices ...*pluginapi.Device) *devicetest.Plugin {
	r.t.Helper()
	p.Socket = filepath.Join(r.Dir, "widget.sock")
	if p.Resource == "" {
		p.Resource = widget
	}
	if p.Answer == nil {
		p.Answer = func(ids []string) (*pluginapi.ContainerAllocateResponse, error) {
			return &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"WIDGETS": strings.Join(ids, ",")}}, nil
		}
	}
	kubelet := filepath.Join(r.Dir, socketName)
	for { // the manager removes other sockets before it makes its own
		if conn, err := net.Dial("unix", kubelet); err == nil { // the file is there a moment before it is listened on
			_ = conn.Close()
			break
		}
		if r.t.Context().Err() != nil {
			r.t.Fatal("no registration socket")
		}
	}
	if err := p.Start(devices...); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Stop)
	if err := p.Register(r.t.Context(), kubelet); err != nil {
		r.t.Fatal(err)
	}
	<-r.wake
	return p
}

// expect compares what the node has of the widgets; "" is that it says nothing of them.
func (r *rig) expect(capacity, allocatable string) {
	r.t.Helper()
	has, free := r.Capacity()
	if got := amount(has); got != capacity {
		r.t.Errorf("capacity %q, want %q", got, capacity)
	}
	if got := amount(free); got != allocatable {
		r.t.Errorf("allocatable %q, want %q", got, allocatable)
	}
}

func amount(list v1.ResourceList) string {
	q, ok := list[widget]
	if !ok {
		return ""
	}
	return q.String()
}

func container(name string, widgets int64) v1.Container {
	c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("1")}}}
	if widgets > 0 {
		c.Resources.Limits[widget] = *resource.NewQuantity(widgets, resource.DecimalSI)
	}
	return c
}

func pod(uid types.UID, containers ...v1.Container) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{Containers: containers}}
	p.UID = uid
	return p
}

func (r *rig) ids(uid types.UID, container string) string {
	var ids []string
	for _, d := range r.Allocated(uid, container) {
		ids = append(ids, d.ID)
	}
	return strings.Join(ids, ",")
}

func TestCapacityFollowsThePlugin(t *testing.T) {
	r := newRig(t, t.TempDir())
	r.expect("", "")
	p := r.plugin(&devicetest.Plugin{}, devicetest.Devices(3)...)
	r.expect("3", "3")
	list := devicetest.Devices(3)
	list[1].Health = pluginapi.Unhealthy
	p.SetDevices(list...)
	<-r.wake
	r.expect("3", "2")
	p.Stop()
	<-r.wake
	r.expect("3", "0")
	r.clock.Step(stopGracePeriod)
	r.expect("3", "0")
	r.clock.Step(time.Second)
	r.expect("0", "0")
	r.plugin(&devicetest.Plugin{}, devicetest.Devices(2)...)
	r.expect("2", "2")
}

func TestRegistrationRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		resource string
		versions []string
		want     string
	}{
		"version":   {widget, []string{"v1alpha"}, `requested API version ["v1alpha"] is not supported by kubelet`},
		"native":    {"cpu", []string{"v1beta1"}, `the ResourceName "cpu" is invalid`},
		"no domain": {"widget", []string{"v1beta1"}, `the ResourceName "widget" is invalid`},
		"good":      {widget, []string{"v9", "v1beta1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(c.resource, c.versions)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	r := newRig(t, t.TempDir())
	r.plugin(&devicetest.Plugin{}, devicetest.Devices(1)...)
	p := &devicetest.Plugin{Resource: "memory", Socket: filepath.Join(r.Dir, "memory.sock")}
	if err := p.Register(t.Context(), filepath.Join(r.Dir, socketName)); err == nil {
		t.Error("a plug-in of memory was registered")
	}
}

func TestWatchedPlugin(t *testing.T) {
	r := newRig(t, t.TempDir())
	p := r.plugin(&devicetest.Plugin{
		Resource: "example.com/other", Options: &pluginapi.DevicePluginOptions{PreStartRequired: true},
	}, devicetest.Devices(1)...)
	handler := Handler{r.Manager}
	found := pluginwatcher.Plugin{Name: widget, Endpoint: p.Socket, Versions: []string{"v1beta1"}}
	if err := handler.Register(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	<-r.wake
	r.expect("1", "1")
	if err := r.Allocate(t.Context(), pod("a", container("c", 1))); err != nil {
		t.Fatal(err)
	}
	c := container("c", 1)
	if _, err := r.Container(t.Context(), "a", &c); err != nil {
		t.Fatal(err)
	}
	if len(p.Started()) != 1 {
		t.Errorf("options of the plug-in were not asked for: %v", p.Started())
	}
	handler.Deregister(t.Context(), found)
	<-r.wake
	r.expect("1", "0")
	found.Versions = []string{"v0"}
	if err := handler.Register(t.Context(), found); err == nil {
		t.Error("a version that is not known was taken")
	}
}

func TestAllocate(t *testing.T) {
	r := newRig(t, t.TempDir())
	r.plugin(&devicetest.Plugin{}, devicetest.Devices(4)...)
	always := v1.ContainerRestartPolicyAlways
	sidecar := container("sidecar", 1)
	sidecar.RestartPolicy = &always
	p := pod("a", container("app", 2), container("none", 0))
	p.Spec.InitContainers = []v1.Container{container("init", 2), sidecar, container("init2", 1)}
	if !r.Wants(p) || r.Wants(pod("x", container("c", 0))) {
		t.Error("Wants is wrong")
	}
	if err := r.Allocate(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	// init gets d0,d1; the sidecar takes d0 over and keeps it; init2 has d1, and the app d1 and a new one.
	for name, want := range map[string]string{
		"init": "d0,d1", "sidecar": "d0", "init2": "d1", "app": "d1,d2", "none": "",
	} {
		if got := r.ids("a", name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	err := r.Allocate(t.Context(), pod("b", container("c", 2)))
	want := "requested number of devices unavailable for example.com/widget. Requested: 2, Available: 1"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	r.Release("a")
	if err := r.Allocate(t.Context(), pod("b", container("c", 2))); err != nil {
		t.Error(err)
	}
	if err := r.Allocate(t.Context(), pod("b", container("c", 2))); err != nil {
		t.Errorf("what a pod has already: %v", err)
	}
}

func TestAllocationFails(t *testing.T) {
	r := newRig(t, t.TempDir())
	answers := []*pluginapi.ContainerAllocateResponse{}
	p := &devicetest.Plugin{Answer: func([]string) (*pluginapi.ContainerAllocateResponse, error) {
		if len(answers) == 0 {
			return nil, errors.New("broken widget")
		}
		return answers[0], nil
	}}
	r.plugin(p, devicetest.Devices(1)...)
	err := r.Allocate(t.Context(), pod("a", container("c", 1)))
	if err == nil || !strings.Contains(err.Error(), "broken widget") || r.ids("a", "c") != "" {
		t.Errorf("got %v and %q", err, r.ids("a", "c"))
	}
}

func TestContainerOptions(t *testing.T) {
	r := newRig(t, t.TempDir())
	p := r.plugin(&devicetest.Plugin{Options: &pluginapi.DevicePluginOptions{PreStartRequired: true}},
		devicetest.Devices(1)...)
	c := container("c", 1)
	_, err := r.Container(t.Context(), "a", &c)
	if err == nil || !strings.HasPrefix(err.Error(), "no devices found allocated in local cache for pod a") {
		t.Errorf("without devices: %v", err)
	}
	if err := r.Allocate(t.Context(), pod("a", c)); err != nil {
		t.Fatal(err)
	}
	o, err := r.Container(t.Context(), "a", &c)
	if err != nil || o.Env["WIDGETS"] != "d0" {
		t.Errorf("got %v, %v", o, err)
	}
	if got := p.Started(); !reflect.DeepEqual(got, [][]string{{"d0"}}) {
		t.Errorf("PreStartContainer was called with %v", got)
	}
	p.PreStartErr = errors.New("not now")
	_, err = r.Container(t.Context(), "a", &c)
	if err == nil || !strings.HasPrefix(err.Error(), "device plugin PreStartContainer rpc failed with err: ") {
		t.Errorf("got %v", err)
	}
}

func TestPreferredAllocation(t *testing.T) {
	r := newRig(t, t.TempDir())
	var asked *pluginapi.ContainerPreferredAllocationRequest
	r.plugin(&devicetest.Plugin{
		Options: &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true},
		Prefer: func(request *pluginapi.ContainerPreferredAllocationRequest) []string {
			asked = request
			return []string{"d3", "d0"}
		},
	}, devicetest.Devices(4)...)
	p := pod("a", container("app", 2))
	p.Spec.InitContainers = []v1.Container{container("init", 1)}
	if err := r.Allocate(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if r.ids("a", "init") != "d3" || r.ids("a", "app") != "d0,d3" {
		t.Errorf("init has %s, app %s", r.ids("a", "init"), r.ids("a", "app"))
	}
	if asked.AllocationSize != 2 || !reflect.DeepEqual(asked.MustIncludeDeviceIDs, []string{"d3"}) ||
		len(asked.AvailableDeviceIDs) != 4 {
		t.Errorf("asked %v", asked)
	}
}

func TestHealthOfPods(t *testing.T) {
	r := newRig(t, t.TempDir())
	p := r.plugin(&devicetest.Plugin{}, devicetest.Devices(2)...)
	if err := r.Allocate(t.Context(), pod("a", container("c", 1))); err != nil {
		t.Fatal(err)
	}
	health := func() v1.ResourceHealthStatus {
		return r.Health("a")["c"][0].Resources[0].Health
	}
	if got := health(); got != v1.ResourceHealthStatusHealthy {
		t.Errorf("got %s", got)
	}
	list := devicetest.Devices(2)
	list[0].Health = pluginapi.Unhealthy
	p.SetDevices(list...)
	<-r.wake
	if got := health(); got != v1.ResourceHealthStatusUnhealthy {
		t.Errorf("got %s", got)
	}
	r.mu.Lock()
	if !reflect.DeepEqual(r.sick, []types.UID{"a"}) {
		t.Errorf("told of %v", r.sick)
	}
	r.mu.Unlock()
	p.SetDevices(list[1])
	<-r.wake
	if got := health(); got != v1.ResourceHealthStatusUnknown {
		t.Errorf("a device that is gone: %s", got)
	}
	node := &v1.Node{}
	if raised := r.WithAllocated(node); amount(raised.Status.Allocatable) != "1" || node.Status.Allocatable != nil {
		t.Errorf("node has %v, was %v", raised.Status.Allocatable, node.Status.Allocatable)
	}
}

func TestAllocationsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	first := newRig(t, dir)
	if !first.ResetCapacity() {
		t.Error("without a checkpoint the capacity in an old status is not reset")
	}
	first.plugin(&devicetest.Plugin{}, devicetest.Devices(2)...)
	for _, uid := range []types.UID{"a", "b"} {
		if err := first.Allocate(t.Context(), pod(uid, container("c", 1))); err != nil {
			t.Fatal(err)
		}
	}
	first.stop()

	second := newRig(t, dir)
	if second.ResetCapacity() {
		t.Error("with a checkpoint the capacity is reset")
	}
	second.expect("0", "0")
	if second.ids("a", "c") != "d0" || second.ids("b", "c") != "d1" {
		t.Errorf("a has %q, b %q", second.ids("a", "c"), second.ids("b", "c"))
	}
	err := second.Allocate(t.Context(), pod("a", container("c", 1)))
	want := "no healthy devices present; cannot allocate unhealthy devices example.com/widget"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	second.plugin(&devicetest.Plugin{}, devicetest.Devices(2)...)
	second.Retain(func(uid types.UID) bool { return uid == "b" })
	if err := second.Allocate(t.Context(), pod("new", container("c", 1))); err != nil || second.ids("new", "c") != "d0" {
		t.Errorf("got %v, %s", err, second.ids("new", "c"))
	}
	c := container("c", 1)
	if o, err := second.Container(t.Context(), "b", &c); err != nil || o.Env["WIDGETS"] != "d1" {
		t.Errorf("b gets %v, %v", o, err)
	}
}

func TestCorruptCheckpoint(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, dir)
	r.plugin(&devicetest.Plugin{}, devicetest.Devices(1)...)
	if err := r.Allocate(t.Context(), pod("a", container("c", 1))); err != nil {
		t.Fatal(err)
	}
	r.stop()
	path := filepath.Join(dir, checkpointName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), `"a"`, `"b"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readCheckpoint(path); err == nil || !strings.Contains(err.Error(), "corrupted") {
		t.Errorf("got %v", err)
	}
}
