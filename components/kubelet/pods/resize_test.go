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
		v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourcePods: resource.MustParse("10"),
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
		if reason, message := refuseResize(c.pod, node, others); reason != c.reason || !strings.Contains(message, c.message) {
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

// TestBeginAfterRestart: what was promised before the kubelet was started anew is what the status tells.
func TestBeginAfterRestart(t *testing.T) {
	pod := sized("1", "64Mi")
	var fresh resize
	if fresh.begin(pod); !fresh.settled(pod) {
		t.Error("a new pod isn't promised what it asks for")
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred, LastTransitionTime: metav1.Now()}}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "c", AllocatedResources: amounts("500m", "64Mi"),
		Resources: &v1.ResourceRequirements{Requests: amounts("500m", "64Mi"), Limits: amounts("2", "2Gi")},
	}}
	var r resize
	r.begin(pod)
	if r.settled(pod) || r.pending == nil || r.progress != nil {
		t.Fatalf("%+v", r)
	}
	has := pod.DeepCopy()
	r.allocate(has)
	c := &has.Spec.Containers[0]
	if c.Resources.Requests.Cpu().MilliValue() != 500 || c.Resources.Limits.Cpu().Value() != 2 {
		t.Errorf("promised %+v", c.Resources)
	}
	if pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 1 {
		t.Error("the pod itself was changed")
	}
}

// What a pod asks for as a whole is promised, and carried out, as what its containers ask for is.
func TestResizeOfTheWholePod(t *testing.T) {
	cpu := func(much string) *v1.ResourceRequirements {
		return &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse(much)}}
	}
	tree := cgroups.Tree{Mount: t.TempDir(), Root: "/"}
	m := New(Config{Builder: &spec.Builder{CPUQuota: true, CPUPeriod: 100 * time.Millisecond}, Recorder: record.NewFakeRecorder(9), Cgroups: tree})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: v1.PodSpec{Resources: cpu("500m"), Containers: []v1.Container{{Name: "c"}}}}
	group := filepath.Join(tree.Mount, "cpu", tree.Parent("u", v1.PodQOSBurstable))
	for _, dir := range []string{group, filepath.Join(tree.Mount, "memory", tree.Parent("u", v1.PodQOSBurstable))} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorker(m, "u")
	w.pod = pod
	w.resize.begin(pod)
	observed := &runtime.Pod{Sandboxes: []runtime.Sandbox{{ID: "s", State: runtime.Running}}}
	follow := func(want string) {
		t.Helper()
		allocated := w.pod.DeepCopy()
		w.resize.allocate(allocated)
		w.followResize(allocated, observed, w.wanted(allocated), time.Now())
		if got, err := os.ReadFile(filepath.Join(group, "cpu.cfs_quota_us")); err != nil || string(got) != want {
			t.Errorf("quota %q, %v, want %q", got, err, want)
		}
	}
	follow("50000")
	w.pod = pod.DeepCopy()
	w.pod.Spec.Resources = cpu("1")
	if w.resize.settled(w.pod) {
		t.Error("a change of the pod's own resources is not seen")
	}
	follow("50000")
	w.decide(w.pod, "", "", time.Now())
	if w.resize.progress == nil {
		t.Error("nothing is under way")
	}
	follow("100000")
	if w.resize.progress != nil || !w.resize.settled(w.pod) {
		t.Errorf("under way: %+v", w.resize.progress)
	}
	// A kubelet that comes back finds what was promised in the status.
	again := w.pod.DeepCopy()
	again.Status.Resources, again.Status.AllocatedResources = cpu("500m"), v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}
	back := newWorker(m, "u")
	back.resize.begin(again)
	if back.resize.settled(again) || back.resize.whole.Limits.Cpu().MilliValue() != 500 {
		t.Errorf("promised: %+v", back.resize.whole)
	}
	// What it costs to run a pod, whoever it is, is in what the status tells, and not part of what was promised.
	again.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
	back = newWorker(m, "u")
	back.resize.begin(again)
	if got := back.resize.whole; got.Limits.Cpu().MilliValue() != 400 || got.Requests.Cpu().MilliValue() != 400 {
		t.Errorf("promised: %+v", got)
	}
}

// A pod whose own limit can't be set is told so, by the generation that was to be carried out, and it is tried again before long.
func TestResizeOfTheWholePodFails(t *testing.T) {
	memory := func(much string) *v1.ResourceRequirements {
		return &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse(much)}}
	}
	tree := cgroups.Tree{Mount: t.TempDir(), Root: "/"}
	recorder := record.NewFakeRecorder(9)
	m := New(Config{Builder: &spec.Builder{}, Recorder: recorder, Cgroups: tree, Resync: time.Hour})
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
	w := newWorker(m, "u")
	w.pod = &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 1},
		Spec:       v1.PodSpec{Resources: memory("2M"), Containers: []v1.Container{{Name: "c"}}},
	}
	w.resize.begin(w.pod)
	observed := &runtime.Pod{Sandboxes: []runtime.Sandbox{{ID: "s", State: runtime.Running}}}
	follow := func() {
		allocated := w.pod.DeepCopy()
		w.resize.allocate(allocated)
		w.followResize(allocated, observed, w.wanted(allocated), time.Now())
	}
	follow()
	w.pod = w.pod.DeepCopy()
	w.pod.Generation, w.pod.Spec.Resources = 2, memory("500k")
	w.decide(w.pod, "", "", time.Now())
	if event := <-recorder.Events; !strings.Contains(event, "ResizeStarted") {
		t.Errorf("event %q", event)
	}
	w.pod = w.pod.DeepCopy()
	w.pod.Generation = 3 // something else is asked for meanwhile
	for range 2 {
		follow()
	}
	const message = "cannot decrease memory limits: attempting to set pod memory limit (500000) below current usage (1000000)"
	if c := w.resize.progress; c == nil || c.Reason != v1.PodReasonError || c.Message != message || c.ObservedGeneration != 2 {
		t.Fatalf("under way: %+v", c)
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events", len(recorder.Events))
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, "Warning ResizeError ") || !strings.Contains(event, message) {
		t.Errorf("event %q", event)
	}
	if got := w.next(&plan.Plan{}, time.Now()); got != retryDelay {
		t.Errorf("tried again after %v", got)
	}
	usage("1000")
	follow()
	if got := w.next(&plan.Plan{}, time.Now()); got != time.Hour || w.resize.progress != nil {
		t.Errorf("afterwards: %v, %+v", got, w.resize.progress)
	}
}
