package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
)

func amounts(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

func sized(cpu, memory string) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "c", Resources: v1.ResourceRequirements{Requests: amounts(cpu, memory), Limits: amounts("4", "4Gi")},
	}}}}
}

func TestRefuseResize(t *testing.T) {
	node := &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("1Gi"),
		v1.ResourcePods: resource.MustParse("10"),
	}}}
	others := []*v1.Pod{sized("1", "512Mi")}
	static := sized("1m", "1Mi")
	static.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
	for name, c := range map[string]struct {
		pod             *v1.Pod
		reason, message string
	}{
		"fits":             {sized("1", "512Mi"), "", ""},
		"static":           {static, "Infeasible", "static-pods"},
		"too large":        {sized("2500m", "1Mi"), "Infeasible", "cpu, requested: 2500, capacity: 2000"},
		"too much memory":  {sized("1", "2Gi"), "Infeasible", "memory, requested: 2147483648, capacity: 1073741824"},
		"must wait":        {sized("1500m", "1Mi"), "Deferred", "cpu, requested: 1500, used: 1000, capacity: 2000"},
		"waits for memory": {sized("1", "513Mi"), "Deferred", "memory, requested: 537919488, used: 536870912"},
	} {
		if reason, message := refuseResize(c.pod, node, others); reason != c.reason ||
			!strings.Contains(message, c.message) {
			t.Errorf("%s: %q, %q", name, reason, message)
		}
	}
}

func TestOrderOfResizes(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	important := sized("1", "1Gi")
	important.Spec.Priority = new(int32(5))
	guaranteed := sized("4", "4Gi")
	list := []candidate{
		{pod: sized("1", "1Gi")},
		{pod: important, growing: true},
		{pod: guaranteed, growing: true, since: now.Add(time.Hour)},
		{pod: sized("1", "1Gi"), growing: true, since: now},
		{pod: sized("1", "1Gi"), growing: true, since: now.Add(time.Minute)},
	}
	for i := range list {
		for j := range list {
			got := compareCandidates(list[i], list[j])
			if (i < j) != (got < 0) || (i == j) != (got == 0) {
				t.Errorf("%d against %d: %d", i, j, got)
			}
		}
	}
}

// TestBeginAfterRestart: after a restart of the kubelet, allocated resources are taken from the status.
func TestBeginAfterRestart(t *testing.T) {
	pod := sized("1", "64Mi")
	if fresh := (resize{}).begun(pod); !fresh.allocation.matches(pod) {
		t.Error("a new pod isn't promised what it asks for")
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred,
		LastTransitionTime: metav1.Now()}}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "c", AllocatedResources: amounts("500m", "64Mi"),
		Resources: &v1.ResourceRequirements{Requests: amounts("500m", "64Mi"), Limits: amounts("2", "2Gi")},
	}}
	r := resize{}.begun(pod)
	if r.allocation.matches(pod) || r.pending == nil || r.progress != nil {
		t.Fatalf("%+v", r)
	}
	has := pod.DeepCopy()
	r.allocation.apply(has)
	c := &has.Spec.Containers[0]
	if c.Resources.Requests.Cpu().MilliValue() != 500 || c.Resources.Limits.Cpu().Value() != 2 {
		t.Errorf("promised %+v", c.Resources)
	}
	if pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 1 {
		t.Error("the pod itself was changed")
	}
}

// followOnce applies the allocated resources to the pod's control group, after an observation.
func followOnce(t *testing.T, w *worker) {
	t.Helper()
	s := &w.state
	s.observations++
	pod := s.withAddresses(nil)
	wanted := s.resources(pod, w.Builder)
	for w.setLimits(t.Context(), pod, wanted) {
		applyResult(t, w)
	}
	w.followResize(pod, wanted, time.Now())
}

// Pod-level resources are allocated and applied as those of containers are.
func TestResizeOfTheWholePod(t *testing.T) {
	cpu := func(much string) *v1.ResourceRequirements {
		return &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse(much)}}
	}
	tree := cgroups.Tree{Mount: t.TempDir(), Root: "/"}
	m := New(Config{Builder: &spec.Builder{CPUQuota: true, CPUPeriod: 100 * time.Millisecond},
		Recorder: record.NewFakeRecorder(9), Cgroups: tree, Clock: clock.RealClock{}})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"},
		Spec: v1.PodSpec{Resources: cpu("500m"), Containers: []v1.Container{{Name: "c"}}}}
	group := filepath.Join(tree.Mount, "cpu", tree.Parent("u", v1.PodQOSBurstable))
	for _, dir := range []string{group, filepath.Join(tree.Mount, "memory", tree.Parent("u", v1.PodQOSBurstable))} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorker(m, pod)
	w.adopt()
	s := &w.state
	s.observed = runtime.Pod{Sandboxes: []runtime.Sandbox{{ID: "s", State: runtime.Running}}}
	follow := func(want string) {
		t.Helper()
		followOnce(t, w)
		if got, err := os.ReadFile(filepath.Join(group, "cpu.cfs_quota_us")); err != nil || string(got) != want {
			t.Errorf("quota %q, %v, want %q", got, err, want)
		}
	}
	follow("50000")
	s.pod = pod.DeepCopy()
	s.pod.Spec.Resources = cpu("1")
	if s.resize.allocation.matches(s.pod) {
		t.Error("a change of the pod's own resources is not seen")
	}
	follow("50000")
	w.takeStanding(standing{allocation: allocationOf(s.pod), granted: s.pod}, time.Now())
	if s.resize.progress == nil {
		t.Error("nothing is under way")
	}
	follow("100000")
	if s.resize.progress != nil || !s.resize.allocation.matches(s.pod) {
		t.Errorf("under way: %+v", s.resize.progress)
	}
	// A restarted kubelet reads the allocated resources from the status.
	again := s.pod.DeepCopy()
	again.Status.Resources, again.Status.AllocatedResources = cpu("500m"),
		v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}
	back := restoredAllocation(again)
	if back.matches(again) || back.pod.Limits.Cpu().MilliValue() != 500 {
		t.Errorf("promised: %+v", back.pod)
	}
	// The pod's overhead is part of the allocated resources in the status, but not of the containers' allocation.
	again.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
	if got := restoredAllocation(again).pod; got.Limits.Cpu().MilliValue() != 400 ||
		got.Requests.Cpu().MilliValue() != 400 {
		t.Errorf("promised: %+v", got)
	}
}

// A failure to set the limit of a pod is reported with the generation that was applied, and it is tried again
// before long.
func TestResizeOfTheWholePodFails(t *testing.T) {
	memory := func(much string) *v1.ResourceRequirements {
		return &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse(much)}}
	}
	tree := cgroups.Tree{Mount: t.TempDir(), Root: "/"}
	recorder := record.NewFakeRecorder(9)
	m := New(Config{Builder: &spec.Builder{}, Recorder: recorder, Cgroups: tree, Resync: time.Hour,
		Clock: clock.RealClock{}})
	group := filepath.Join(tree.Mount, "memory", tree.Parent("u", v1.PodQOSBurstable))
	for _, dir := range []string{group, filepath.Join(tree.Mount, "cpu", tree.Parent("u", v1.PodQOSBurstable))} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	usage := func(bytes string) {
		if err := os.WriteFile(filepath.Join(group, "memory.usage_in_bytes"), []byte(bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	usage("1000000")
	w := newWorker(m, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 1},
		Spec:       v1.PodSpec{Resources: memory("2M"), Containers: []v1.Container{{Name: "c"}}},
	})
	w.adopt()
	s := &w.state
	s.observed = runtime.Pod{Sandboxes: []runtime.Sandbox{{ID: "s", State: runtime.Running}}}
	followOnce(t, w)
	s.pod = s.pod.DeepCopy()
	s.pod.Generation, s.pod.Spec.Resources = 2, memory("500k")
	w.takeStanding(standing{allocation: allocationOf(s.pod), granted: s.pod}, time.Now())
	if event := <-recorder.Events; !strings.Contains(event, "ResizeStarted") {
		t.Errorf("event %q", event)
	}
	s.pod = s.pod.DeepCopy()
	s.pod.Generation = 3 // something else is asked for meanwhile
	for range 2 {
		followOnce(t, w)
	}
	const message = "cannot decrease memory limits: attempting to set pod memory limit (500000) below current usage " +
		"(1000000)"
	if c := s.resize.progress; c == nil || c.Reason != v1.PodReasonError || c.Message != message ||
		c.ObservedGeneration != 2 {
		t.Fatalf("under way: %+v", c)
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events", len(recorder.Events))
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, "Warning ResizeError ") ||
		!strings.Contains(event, message) {
		t.Errorf("event %q", event)
	}
	now := time.Now()
	if got := s.nextObservation(&plan.Plan{}, now).Sub(now); got != retryDelay {
		t.Errorf("tried again after %v", got)
	}
	usage("1000")
	followOnce(t, w)
	if got := s.nextObservation(&plan.Plan{}, now); !got.IsZero() || s.resize.progress != nil {
		t.Errorf("afterwards: %v, %+v", got, s.resize.progress)
	}
}
