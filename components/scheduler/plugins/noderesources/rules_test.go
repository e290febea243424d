package noderesources

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// TestFitReasons: every resource that lacks is named, in a fixed order; one that exceeds an empty node makes the
// refusal final.
func TestFitReasons(t *testing.T) {
	s := schedulertest.Snapshot(
		schedulertest.Node("n", "cpu=4 memory=4Gi ephemeral-storage=4Gi example.com/a=2 example.com/b=2 pods=1"),
		schedulertest.Pod("there", "node=n cpu=3 memory=3Gi ephemeral-storage=3Gi example.com/a=2 example.com/b=1", nil))
	for spec, want := range map[string]string{
		"":                                "Too many pods",
		"cpu=1 memory=1Gi":                "Too many pods",
		"cpu=2":                           "Too many pods; Insufficient cpu",
		"cpu=2 memory=2Gi":                "Too many pods; Insufficient cpu; Insufficient memory",
		"ephemeral-storage=2Gi":           "Too many pods; Insufficient ephemeral-storage",
		"example.com/a=1":                 "Too many pods; Insufficient example.com/a",
		"example.com/b=1":                 "Too many pods",
		"example.com/b=2 cpu=2":           "Too many pods; Insufficient cpu; Insufficient example.com/b",
		"example.com/b=2 example.com/a=1": "Too many pods; Insufficient example.com/a; Insufficient example.com/b",
		"cpu=5 memory=2Gi":                "!Too many pods; Insufficient cpu; Insufficient memory",
		"example.com/none=1":              "!Too many pods; Insufficient example.com/none",
		"example.com/none=0 cpu=0":        "Too many pods",
	} {
		if got := schedulertest.Check(&Fit{}, schedulertest.Pod("p", spec, nil), s)["n"]; got != want {
			t.Errorf("%q: got %q, want %q", spec, got, want)
		}
	}
}

// TestOvercommitted: a node whose pods ask for more than it has, as after it shrank, takes pods that ask for nothing.
func TestOvercommitted(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("n", "cpu=1 memory=1Gi"),
		schedulertest.Pod("there", "node=n cpu=2 memory=512Mi", nil))
	for spec, want := range map[string]string{"": "", "memory=512Mi": "", "cpu=1m": "Insufficient cpu"} {
		if got := schedulertest.Check(&Fit{}, schedulertest.Pod("p", spec, nil), s)["n"]; got != want {
			t.Errorf("%q: got %q, want %q", spec, got, want)
		}
	}
}

// TestIgnores: only extended resources can be ignored; those of Kubernetes itself are always checked.
func TestIgnores(t *testing.T) {
	fit := &Fit{IgnoredResources: []string{"example.com/a", "cpu", "kubernetes.io/x"},
		IgnoredGroups: []string{"other.com", "kubernetes.io", "deep.kubernetes.io"}}
	for name, want := range map[v1.ResourceName]bool{
		"example.com/a": true, "example.com/b": false, "other.com/any": true, "sub.other.com/any": false,
		"cpu": false, "memory": false, "hugepages-2Mi": false, "kubernetes.io/x": false, "deep.kubernetes.io/x": false,
	} {
		if got := fit.ignores(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestFitHints(t *testing.T) {
	hints := queue.Hints{FitName: (&Fit{IgnoredResources: []string{"example.com/ignored"}}).Hints()}
	bound := func(spec string) *snapshot.Pod { return snapshot.NewPod(schedulertest.Pod("other", spec, nil)) }
	added := func(spec string) queue.Event {
		return queue.Event{Kind: queue.NodeAdded, Node: schedulertest.Node("n", spec)}
	}
	shrunk := func(before, after string) queue.Event {
		return queue.Event{Kind: queue.PodShrunk, OldPod: bound(before), Pod: bound(after)}
	}
	for name, c := range map[string]struct {
		asks string
		e    queue.Event
		want bool
	}{
		"a node of enough":        {"cpu=2", added("cpu=2"), true},
		"a node of too little":    {"cpu=2", added("cpu=1999m"), false},
		"a node for no pods":      {"", added("cpu=2 pods=0"), false},
		"a node without the GPU":  {"example.com/gpu=1", added(""), false},
		"a node with the GPU":     {"example.com/gpu=1", added("example.com/gpu=1"), true},
		"one that is ignored":     {"example.com/ignored=1", added(""), true},
		"room for more pods":      {"cpu=1", grown("cpu=1 pods=1", "cpu=1 pods=2"), true},
		"more of what it asks":    {"cpu=2", grown("cpu=2", "cpu=3"), true},
		"more of something else":  {"cpu=2", grown("cpu=2 memory=1Gi", "cpu=2 memory=2Gi"), false},
		"more, but not enough":    {"cpu=9", grown("cpu=2", "cpu=3"), false},
		"less":                    {"cpu=1", grown("cpu=3", "cpu=2"), false},
		"a pod that went":         {"cpu=2", queue.Event{Kind: queue.PodRemoved, OldPod: bound("")}, true},
		"a pod that shrank":       {"cpu=2", shrunk("cpu=2", "cpu=1"), true},
		"of other resources":      {"cpu=2", shrunk("memory=2", "memory=1"), false},
		"its own smaller request": {"cpu=2", queue.Event{Kind: queue.OwnRequests}, true},
		"a pod that came":         {"cpu=2", queue.Event{Kind: queue.PodAdded, Pod: bound("cpu=1")}, false},
		"labels of a node": {"cpu=2", queue.Event{Kind: queue.NodeLabels, Node: schedulertest.Node("n", "cpu=2")},
			false},
	} {
		p := snapshot.NewPod(schedulertest.Pod("p", c.asks, nil))
		if got := hints.Helps(p, []string{FitName}, c.e); got != c.want {
			t.Errorf("%s helps: %v", name, got)
		}
	}
}

func grown(before, after string) queue.Event {
	return queue.Event{Kind: queue.NodeAllocatable, OldNode: schedulertest.Node("n", before),
		Node: schedulertest.Node("n", after)}
}

func TestRates(t *testing.T) {
	bend := Shape([]Point{{20, 2}, {60, 10}, {80, 4}})
	for name, c := range map[string]struct {
		rate               func(int64, int64) int64
		taken, allocatable int64
		want               int64
	}{
		"least: empty":          {LeastAllocated, 0, 10, 100},
		"least: full":           {LeastAllocated, 10, 10, 0},
		"least: too full":       {LeastAllocated, 11, 10, 0},
		"least: rounds down":    {LeastAllocated, 1, 3, 66},
		"most: empty":           {MostAllocated, 0, 10, 0},
		"most: full":            {MostAllocated, 10, 10, 100},
		"most: too full":        {MostAllocated, 20, 10, 100},
		"shape: below":          {bend, 0, 100, 20},
		"shape: at a point":     {bend, 60, 100, 100},
		"shape: between":        {bend, 40, 100, 60},
		"shape: off the tens":   {bend, 21, 100, 22},
		"shape: falling":        {bend, 70, 100, 70},
		"shape: above":          {bend, 100, 100, 40},
		"shape: too full":       {bend, 300, 100, 40},
		"shape: share is whole": {bend, 419, 1000, 62}, // 41 %
	} {
		if got := c.rate(c.taken, c.allocatable); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestScoredResources: weights count, a node without a resource is scored by the others, and an extended resource by
// pods that ask for it only.
func TestScoredResources(t *testing.T) {
	s := schedulertest.Snapshot(
		schedulertest.Node("gpu", "cpu=10 memory=10Gi example.com/gpu=4"), schedulertest.Node("none", "cpu=10 memory=10Gi"),
		schedulertest.Pod("there", "node=gpu cpu=1 memory=1Gi example.com/gpu=2", nil))
	resources := []Resource{{v1.ResourceCPU, 1}, {v1.ResourceMemory, 3}, {"example.com/gpu", 4}}
	least := Strategy{Resources: resources, Rate: LeastAllocated}
	for name, c := range map[string]struct {
		strategy Strategy
		asks     string
		want     map[string]int64
	}{
		"without the extended one": {least, "cpu=1 memory=4Gi", map[string]int64{
			"gpu": (80*1 + 50*3) / 4, "none": (90*1 + 60*3) / 4}},
		"with it": {least, "cpu=1 memory=4Gi example.com/gpu=1", map[string]int64{
			"gpu": (80*1 + 50*3 + 25*4) / 8, "none": (90*1 + 60*3) / 4}},
		"a ratio leaves out what scores 0": {
			Strategy{Resources: resources, Rate: Shape([]Point{{49, 0}, {50, 10}}), Ratio: true},
			"cpu=1 memory=4Gi", map[string]int64{"gpu": 100, "none": 0}},
		"a ratio rounds": {
			Strategy{Resources: resources[:2], Rate: Shape([]Point{{0, 0}, {100, 10}}), Ratio: true},
			"cpu=1500m memory=4Gi", map[string]int64{"gpu": 44, "none": 34}}, // 43.75 and 33.75
	} {
		fit := &Fit{Strategy: c.strategy}
		if got := schedulertest.Scores(fit, schedulertest.Pod("p", c.asks, nil), s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestDeviation(t *testing.T) {
	for name, c := range map[string]struct {
		shares []float64
		want   float64
	}{
		"none": {nil, 0}, "one": {[]float64{0.7}, 0}, "two": {[]float64{0.2, 0.6}, 0.2},
		"equal": {[]float64{0.5, 0.5, 0.5}, 0},
		"three": {[]float64{0, 0, 0.75}, 0.3535},
	} {
		if got := deviation(c.shares); got < c.want-0.0001 || got > c.want+0.0001 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestManyResources: a pod may ask for more resources than there are bits, and each of them counts.
func TestManyResources(t *testing.T) {
	requests := v1.ResourceList{}
	allocatable := v1.ResourceList{v1.ResourcePods: resource.MustParse("9")}
	for i := range 80 {
		name := v1.ResourceName("example.com/r" + string(rune('a'+i/10)) + string(rune('0'+i%10)))
		requests[name], allocatable[name] = resource.MustParse("1"), resource.MustParse("1")
	}
	const last = "example.com/rh9"
	allocatable[last] = resource.MustParse("0")
	n := schedulertest.Node("n", "")
	n.Status.Allocatable = allocatable
	p := schedulertest.Pod("p", "", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = requests })
	want := map[string]string{"n": "!Insufficient " + last}
	if got := schedulertest.Check(&Fit{}, p, schedulertest.Snapshot(n)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
