package noderesources

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func asks(cpu string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}
}

func TestFit(t *testing.T) {
	s := schedulertest.Snapshot(
		schedulertest.Node("n", "cpu=2 memory=1Gi example.com/gpu=1 pods=2"),
		schedulertest.Pod("there", "node=n cpu=1 memory=512Mi", nil))
	cases := map[string]struct {
		spec   string
		change func(*v1.Pod)
		fit    Fit
		want   string
	}{
		"asks nothing":  {"", nil, Fit{}, ""},
		"just fits":     {"cpu=1 memory=512Mi example.com/gpu=1", nil, Fit{}, ""},
		"cpu":           {"cpu=1001m", nil, Fit{}, "Insufficient cpu"},
		"never":         {"cpu=3", nil, Fit{}, "!Insufficient cpu"},
		"two":           {"cpu=1500m memory=600Mi", nil, Fit{}, "Insufficient cpu; Insufficient memory"},
		"extended":      {"example.com/gpu=2", nil, Fit{}, "!Insufficient example.com/gpu"},
		"ephemeral":     {"ephemeral-storage=1", nil, Fit{}, "!Insufficient ephemeral-storage"},
		"ignored":       {"example.com/gpu=2", nil, Fit{IgnoredResources: []string{"example.com/gpu"}}, ""},
		"ignored group": {"example.com/gpu=2", nil, Fit{IgnoredGroups: []string{"example.com"}}, ""},
		"init containers count by the largest": {"cpu=500m", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Resources: asks("800m")}, {Resources: asks("1100m")}}
		}, Fit{}, "Insufficient cpu"},
		"sidecars add up": {"cpu=500m", func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Resources: asks("501m"),
				RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}}
		}, Fit{}, "Insufficient cpu"},
		"overhead": {"cpu=900m", func(p *v1.Pod) {
			p.Spec.Overhead = asks("200m").Requests
		}, Fit{}, "Insufficient cpu"},
		"pod level": {"cpu=100m", func(p *v1.Pod) {
			p.Spec.Resources = ptr.To(asks("1500m"))
		}, Fit{}, "Insufficient cpu"},
	}
	for name, c := range cases {
		if got := schedulertest.Check(&c.fit, schedulertest.Pod("p", c.spec, c.change), s)["n"]; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	full := schedulertest.Snapshot(schedulertest.Node("n", "pods=1"), schedulertest.Pod("there", "node=n", nil))
	if got := schedulertest.Check(&Fit{}, schedulertest.Pod("p", "", nil), full)["n"]; got != "Too many pods" {
		t.Errorf("full node: %q", got)
	}
}

func TestHints(t *testing.T) {
	hints := queue.Hints{FitName: (&Fit{}).Hints()}
	p := snapshot.NewPod(schedulertest.Pod("p", "cpu=2", nil))
	small, large, wide := schedulertest.Node("n", "cpu=1"), schedulertest.Node("n", "cpu=2"),
		schedulertest.Node("n", "cpu=2 memory=1Gi")
	cases := []struct {
		name     string
		old, now *v1.Node
		want     bool
	}{
		{"large enough", nil, large, true},
		{"too small", nil, small, false},
		{"grew", small, large, true},
		{"grew elsewhere", large, wide, false},
	}
	for _, c := range cases {
		helps := hints[FitName][0].Helps(p, queue.Event{OldNode: c.old, Node: c.now})
		if helps != c.want {
			t.Errorf("%s: %v", c.name, helps)
		}
	}
}

func TestScores(t *testing.T) {
	s := schedulertest.Snapshot(
		schedulertest.Node("empty", "cpu=4 memory=4Gi"), schedulertest.Node("half", "cpu=4 memory=4Gi"),
		schedulertest.Pod("there", "node=half cpu=2 memory=1Gi", nil))
	pod := schedulertest.Pod("p", "cpu=1 memory=1Gi", nil)
	shape := Shape([]Point{{0, 0}, {50, 10}, {100, 0}})
	cases := map[string]struct {
		rate func(int64, int64) int64
		want map[string]int64
	}{
		"least": {LeastAllocated, map[string]int64{"empty": 75, "half": 37}},
		"most":  {MostAllocated, map[string]int64{"empty": 25, "half": 62}},
		"shape": {shape, map[string]int64{"empty": 50, "half": 75}},
	}
	for name, c := range cases {
		fit := &Fit{Strategy: Strategy{Resources: DefaultResources(), Rate: c.rate}}
		if got := schedulertest.Scores(fit, pod, s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	fit := &Fit{Strategy: Strategy{Resources: DefaultResources(), Rate: LeastAllocated}}
	// a pod without requests counts as 100m and 200Mi: 97.5 and 95.1
	if got := schedulertest.Scores(fit, schedulertest.Pod("p", "", nil), s)["empty"]; got != 96 {
		t.Errorf("default requests: %d", got)
	}
}

func TestBalanced(t *testing.T) {
	s := schedulertest.Snapshot(
		schedulertest.Node("empty", "cpu=4 memory=4Gi"), schedulertest.Node("uneven", "cpu=4 memory=4Gi"),
		schedulertest.Pod("there", "node=uneven memory=2Gi", nil))
	b := &Balanced{Resources: DefaultResources()}
	got := schedulertest.Scores(b, schedulertest.Pod("p", "cpu=2", nil), s)
	if want := (map[string]int64{"empty": 62, "uneven": 87}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := schedulertest.Scores(b, schedulertest.Pod("p", "", nil), s); got != nil {
		t.Errorf("a pod that asks for nothing has preferences %v", got)
	}
}
