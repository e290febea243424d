package pods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// disks is an engine of one pod whose containers are as large as it says.
type disks struct {
	runtime.Engine
	pod   runtime.Pod
	usage map[string]runtime.DiskUsage
	err   error // instead of them
}

func (d *disks) Pod(context.Context, types.UID) (runtime.Pod, error) { return d.pod, nil }

func (d *disks) Disk(_ context.Context, id string) (runtime.DiskUsage, error) {
	return d.usage[id], d.err
}

func TestExceedsStorage(t *testing.T) {
	const mega = 1 << 20
	limit := func(size string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(size)}}
	}
	size := resource.MustParse("1Mi")
	small := v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}}}
	unbounded := v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
	for name, test := range map[string]struct {
		containers []v1.Container
		volume     *v1.Volume
		file       int // bytes in the volume
		written    int64
		logs       int64
		state      runtime.State
		want       string
		unlimited  bool
	}{
		"no limit": {containers: []v1.Container{{Name: "c"}}, written: 9 * mega, unlimited: true},
		"within": {containers: []v1.Container{{Name: "c", Resources: limit("5Mi")}}, written: 4 * mega,
			logs: mega / 2},
		"writes too much": {containers: []v1.Container{{Name: "c", Resources: limit("5Mi")},
			{Name: "d", Resources: limit("9Mi")}}, written: 6 * mega,
			want: "Container c exceeded its local ephemeral storage limit \"5Mi\". "},
		"says too much": {containers: []v1.Container{{Name: "c", Resources: limit("5Mi")},
			{Name: "d", Resources: limit("9Mi")}}, logs: 6 * mega,
			want: "Container c exceeded its local ephemeral storage limit \"5Mi\". "},
		"all together": {containers: []v1.Container{{Name: "c", Resources: limit("5Mi")}}, written: 4 * mega,
			file: 2 * mega, volume: &unbounded,
			want: "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. "},
		"wrote, and ended": {containers: []v1.Container{{Name: "c", Resources: limit("5Mi")}}, written: 9 * mega,
			state: runtime.Exited},
		"the volume": {containers: []v1.Container{{Name: "c"}}, file: 2 * mega, volume: &small,
			want: "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". "},
		"within the volume": {containers: []v1.Container{{Name: "c"}}, file: mega / 2, volume: &small},
	} {
		t.Run(name, func(t *testing.T) {
			if test.state == "" {
				test.state = runtime.Running
			}
			engine := &disks{
				pod:   runtime.Pod{Containers: []runtime.Container{{ID: "1", Name: "c", State: test.state}}},
				usage: map[string]runtime.DiskUsage{"1": {Written: test.written, Logs: test.logs}},
			}
			m := New(Config{Builder: &spec.Builder{}, Engine: engine, Volumes: &volumes.Manager{Root: t.TempDir()}})
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"},
				Spec: v1.PodSpec{Containers: test.containers}}
			if test.volume != nil {
				pod.Spec.Volumes = []v1.Volume{*test.volume}
				dir := filepath.Join(m.Volumes.Root, "pods/u/volumes/kubernetes.io~empty-dir/v")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, test.file), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Link(filepath.Join(dir, "f"), filepath.Join(dir, "again")); err != nil {
					t.Fatal(err)
				}
			}
			if limitsStorage(pod) == test.unlimited {
				t.Errorf("has a limit: %v", !test.unlimited)
			}
			got, err := m.exceeds(t.Context(), engine, pod)
			if err != nil || got != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// What can't be measured is not taken for nothing; a container that isn't there any more is nothing.
func TestUnmeasuredStorage(t *testing.T) {
	engine := &disks{pod: runtime.Pod{Containers: []runtime.Container{{ID: "1", Name: "c", State: runtime.Running}}}}
	m := New(Config{Builder: &spec.Builder{}, Engine: engine, Volumes: &volumes.Manager{Root: t.TempDir()}})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	for err, fails := range map[error]bool{runtime.ErrNotFound: false, errors.New("engine is busy"): true} {
		engine.err = err
		if _, got := m.exceeds(t.Context(), engine, pod); (got != nil) != fails {
			t.Errorf("%v: got %v", err, got)
		}
	}
}

// An evicted pod has a grace period of one second, whatever its own.
func TestEvict(t *testing.T) {
	m := New(Config{Builder: &spec.Builder{}, Recorder: record.NewFakeRecorder(1)})
	m.Set(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}})
	w := m.workers["u"]
	w.adopt()
	w.receive(events{evict: &rejection{reason: evicted, message: "too large", within: evictionGrace}})
	s := &w.state
	if s.rejected == nil || s.rejected.reason != "Evicted" || s.rejected.never {
		t.Fatalf("rejected: %+v", s.rejected)
	}
	s.decideEnd(time.Now())
	if s.ending == nil || s.ending.Grace != time.Second {
		t.Errorf("ending: %+v", s.ending)
	}
}

// counted is a volume plug-in that counts how often its volumes are brought up to date.
type counted struct {
	dir string
	n   atomic.Int32
}

func (*counted) Name() string                  { return "example.com/counted" }
func (*counted) Supports(*volumes.Source) bool { return true }

func (c *counted) SetUp(context.Context, *volumes.Source) (volumes.Mounted, error) {
	c.n.Add(1)
	time.Sleep(time.Second) // it ends later than the resync that it began with
	return volumes.Mounted{Path: c.dir}, nil
}

// TestVolumesAreRefreshed: once for each resync, though that comes a moment sooner than a period after the last time.
func TestVolumesAreRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &counted{dir: t.TempDir()}
		m, end := runWithVolumes(t, newGate(t),
			&volumes.Manager{Root: t.TempDir(), Plugins: []volumes.Plugin{plugin}})
		defer end()
		pod := simplePod("u")
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
			CSI: &v1.CSIVolumeSource{Driver: "example.com"}}}}
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		m.Set(pod)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		first := plugin.n.Load()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if phaseOf(m, "u") != v1.PodRunning || first < 1 || plugin.n.Load() != first+3 {
			t.Errorf("the pod is %s; its volume was made %d times, and %d more in three minutes", phaseOf(m, "u"), first,
				plugin.n.Load()-first)
		}
	})
}

// released is a volume plug-in whose volumes are released now and then.
type released struct {
	counted
	fails    atomic.Int32 // how often that fails first
	released atomic.Int32
}

func (r *released) TearDown(context.Context, types.UID) error {
	if r.fails.Add(-1) >= 0 {
		return errors.New("busy")
	}
	r.released.Add(1)
	return nil
}

// TestVolumesOfEndedPods: they are torn down once, though the pod's object stays, and what the pod kept is freed.
func TestVolumesOfEndedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &released{counted: counted{dir: t.TempDir()}}
		plugin.fails.Store(2)
		made := &volumes.Manager{Root: t.TempDir(), Plugins: []volumes.Plugin{plugin}}
		m, end := runWithVolumes(t, newGate(t), made)
		defer end()
		pod := simplePod("u")
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Annotations = map[string]string{hollow.RunFor: "20s"}
		pod.Spec.Volumes = []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "example.com"}}},
			{Name: "e", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}, {Name: "e", MountPath: "/e"}}
		m.Set(pod)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		kept := filepath.Join(made.Root, "pods/u/volumes/kubernetes.io~empty-dir/e")
		if _, err := os.Stat(kept); err != nil || plugin.released.Load() > 0 {
			t.Errorf("while the pod runs: %v, released %d times", err, plugin.released.Load())
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if _, err := os.Stat(kept); !errors.Is(err, os.ErrNotExist) || plugin.released.Load() != 1 {
			t.Errorf("after the pod has ended: %v, released %d times", err, plugin.released.Load())
		}
		if phase := phaseOf(m, "u"); phase != v1.PodSucceeded {
			t.Errorf("phase %q", phase)
		}
	})
}
