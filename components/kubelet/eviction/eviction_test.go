package eviction

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
)

func TestParseRefuses(t *testing.T) {
	one := func(signal, text string) map[string]string { return map[string]string{signal: text} }
	for want, settings := range map[string]Settings{
		"unsupported eviction signal mem":                                      {Hard: one("mem", "1Mi")},
		"unsupported eviction signal soft":                                     {SoftGrace: one("soft", "1s")},
		"eviction threshold memory.available must be positive: -1Mi":           {Hard: one("memory.available", "-1Mi")},
		"eviction percentage threshold memory.available must be >= 0%: -1%":    {Hard: one("memory.available", "-1%")},
		"eviction percentage threshold memory.available must be <= 100%: 101%": {Hard: one("memory.available", "101%")},
		"grace period must be specified for the soft eviction threshold memory.available": {
			Soft: one("memory.available", "1Mi")},
		"invalid eviction grace period specified: -1s, must be a positive value": {
			Soft: one("memory.available", "1Mi"), SoftGrace: one("memory.available", "-1s")},
	} {
		if _, err := Parse(settings); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	all, err := Parse(Settings{Hard: Defaults()})
	if err != nil || len(all) != 5 {
		t.Errorf("defaults: %+v, %v", all, err)
	}
	if all, err = Parse(Settings{Hard: one("nodefs.available", "0%")}); err != nil || len(all) != 0 {
		t.Errorf("turned off: %+v, %v", all, err)
	}
}

func parsed(t *testing.T, s Settings) []Threshold {
	t.Helper()
	all, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestUpdate(t *testing.T) {
	state := State{Transition: 20 * time.Second, Thresholds: parsed(t, Settings{
		Hard:           map[string]string{"nodefs.available": "10%", "memory.available": "100"},
		Soft:           map[string]string{"memory.available": "200"},
		SoftGrace:      map[string]string{"memory.available": "10s"},
		MinimumReclaim: map[string]string{"memory.available": "50"},
	})}
	for _, step := range []struct {
		at           int64
		memory, disk int64
		conditions   string
		act          Signal
		soft         bool
	}{
		{at: 0, memory: 500, disk: 500},
		{at: 5, memory: 199, disk: 500, conditions: "MemoryPressure"},
		{at: 10, memory: 199, disk: 500, conditions: "MemoryPressure"},
		{at: 15, memory: 199, disk: 500, conditions: "MemoryPressure", act: Memory, soft: true},
		{at: 20, memory: 240, disk: 500, conditions: "MemoryPressure", act: Memory, soft: true},
		{at: 25, memory: 250, disk: 99, conditions: "DiskPressure MemoryPressure", act: NodeFS},
		{at: 30, memory: 99, disk: 99, conditions: "DiskPressure MemoryPressure", act: Memory},
		{at: 35, memory: 500, disk: 100, conditions: "DiskPressure MemoryPressure"},
		{at: 49, memory: 500, disk: 100, conditions: "DiskPressure MemoryPressure"},
		{at: 50, memory: 500, disk: 100},
	} {
		conditions, act := state.Update(map[Signal]Level{
			Memory: {step.memory, 1000}, NodeFS: {step.disk, 1000}}, time.Unix(step.at, 0))
		var names []string
		for _, c := range conditions {
			names = append(names, string(c))
		}
		if got := strings.Join(names, " "); got != step.conditions || (act == nil) != (step.act == "") ||
			act != nil && (act.Signal != step.act || (act.Grace > 0) != step.soft) {
			t.Errorf("at %d: %s, %+v", step.at, got, act)
		}
	}
}

func pod(name string, priority int32, request string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "c"}}}}
	if request != "" {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
	}
	return p
}

func memory(bytes int64) *Usage { return &Usage{Memory: map[string]int64{"c": bytes}} }

func TestRank(t *testing.T) {
	candidates := []Candidate{
		{pod("within", -5, "100Mi"), memory(50 << 20)},
		{pod("important", 10, ""), memory(500 << 20)},
		{pod("little", 0, "10Mi"), memory(20 << 20)},
		{pod("much", 0, "10Mi"), memory(200 << 20)},
		{pod("unknown", 100, ""), nil},
	}
	names := func() []string {
		var names []string
		for _, c := range candidates {
			names = append(names, c.Pod.Name)
		}
		return names
	}
	rank(candidates, v1.ResourceMemory)
	if got := names(); !slices.Equal(got, []string{"unknown", "much", "little", "important", "within"}) {
		t.Errorf("memory: %v", got)
	}
	rank(candidates, "pids")
	if got := names(); got[0] != "within" || got[4] != "unknown" {
		t.Errorf("process IDs: %v", got)
	}
}

func TestMessage(t *testing.T) {
	threshold := parsed(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}})[0]
	got := message(&Candidate{pod("p", 0, "10Mi"), memory(20 << 20)}, &threshold, Level{50 << 20, 1 << 30})
	want := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. " +
		"Container c was using 20Mi, request is 10Mi, has larger consumption of memory. "
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestLevels(t *testing.T) {
	proc := t.TempDir()
	for name, text := range map[string]string{
		"meminfo": "MemTotal: 1000 kB\nMemFree: 100 kB\nInactive(file): 50 kB\n",
		"loadavg": "0.1 0.2 0.3 1/120 4711\n", "sys/kernel/pid_max": "4000\n", "sys/kernel/threads-max": "1000\n",
	} {
		file := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	levels, err := Machine{Root: proc, Proc: proc}.Levels()
	if err != nil || levels[Memory] != (Level{150 << 10, 1000 << 10}) || levels[PID] != (Level{880, 1000}) {
		t.Errorf("%+v, %v", levels, err)
	}
	if disk := levels[NodeFS]; disk.Capacity <= 0 || disk.Available > disk.Capacity || levels[ImageFS] != disk {
		t.Errorf("disk %+v", disk)
	}
	if levels, err = (Machine{Root: proc, Proc: proc + "/none"}).Levels(); err == nil || len(levels) < 2 {
		t.Errorf("without memory: %+v, %v", levels, err)
	}
}

// node is a node whose memory is taken by its pods.
type node struct {
	pods    []*v1.Pod
	evicted []string
	graces  []time.Duration
}

func (n *node) Active() []*v1.Pod { return slices.Clone(n.pods) }

func (n *node) Usage(_ context.Context, p *v1.Pod) (*Usage, error) {
	if p.Name == "broken" {
		return nil, errors.New("no answer")
	}
	return memory(100), nil
}

func (n *node) Evict(p *v1.Pod, _ string, grace time.Duration) {
	n.evicted, n.graces = append(n.evicted, p.Name), append(n.graces, grace)
	n.pods = slices.DeleteFunc(n.pods, func(other *v1.Pod) bool { return other == p })
}

func TestManagerEvictsOneByOneAndSparesCritical(t *testing.T) {
	n := &node{pods: []*v1.Pod{pod("critical", 2_000_000_000, ""), pod("b", 1, ""), pod("a", 0, "")}}
	var events []string
	changes := 0
	m := New(Config{
		Thresholds: parsed(t, Settings{Hard: map[string]string{"memory.available": "150"}}), Transition: time.Minute,
		Levels: func() (map[Signal]Level, error) {
			return map[Signal]Level{Memory: {400 - 100*int64(len(n.pods)), 400}}, nil
		},
		Pods: n, Clock: testclock.NewFakeClock(time.Unix(0, 0)), Changed: func() { changes++ },
		Event: func(kind, reason, message string) { events = append(events, kind+" "+reason+" "+message) },
	})
	for range 4 {
		m.sync(t.Context())
	}
	if !slices.Equal(n.evicted, []string{"a"}) || n.graces[0] != time.Second || changes != 1 ||
		!slices.Equal(m.Conditions(), []v1.NodeConditionType{v1.NodeMemoryPressure}) ||
		!slices.Equal(events, []string{"Warning EvictionThresholdMet Attempting to reclaim memory"}) {
		t.Errorf("%+v, %d changes, %v, %v", n, changes, m.Conditions(), events)
	}
	n.pods = []*v1.Pod{pod("critical", 2_000_000_000, ""), n.pods[0], n.pods[0]}
	m.sync(t.Context())
	if len(n.evicted) != 1 {
		t.Errorf("critical pods were evicted: %v", n.evicted)
	}
}

// What the node itself holds of a disk is given back first, and pods are evicted only if that is not enough.
func TestManagerReclaimsBeforeItEvicts(t *testing.T) {
	for name, test := range map[string]struct {
		signal         Signal
		first, second  int64 // what the steps free
		failing        bool
		steps, evicted int
	}{
		"enough":                {NodeFS, 30, 30, false, 2, 0},
		"the first is enough":   {NodeInodes, 60, 0, false, 2, 0},
		"enough for no margin":  {ImageFS, 25, 25, false, 2, 1},
		"nothing":               {ImageInodes, 0, 0, false, 2, 1},
		"a step fails":          {NodeFS, 0, 60, true, 2, 0},
		"memory is not on disk": {Memory, 60, 60, false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{pods: []*v1.Pod{pod("a", 0, "")}}
			available, steps := int64(50), 0
			step := func(frees int64, err error) func(context.Context) error {
				return func(context.Context) error { steps++; available += frees; return err }
			}
			var failure error
			if test.failing {
				failure = errors.New("can't")
			}
			m := New(Config{
				Thresholds: parsed(t, Settings{Hard: map[string]string{string(test.signal): "100"},
					MinimumReclaim: map[string]string{string(test.signal): "5"}}),
				Levels: func() (map[Signal]Level, error) { return map[Signal]Level{test.signal: {available, 400}}, nil },
				Pods:   n, Clock: testclock.NewFakeClock(time.Unix(0, 0)), Changed: func() {},
				Event:   func(string, string, string) {},
				Reclaim: []func(context.Context) error{step(test.first, failure), step(test.second, nil)},
			})
			m.sync(t.Context())
			if steps != test.steps || len(n.evicted) != test.evicted {
				t.Errorf("%d steps, evicted %v", steps, n.evicted)
			}
		})
	}
}

func TestWithheld(t *testing.T) {
	got := Withheld(parsed(t, Settings{Hard: Defaults()}), v1.ResourceList{
		v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourceEphemeralStorage: resource.MustParse("1000"),
		v1.ResourceCPU: resource.MustParse("1")})
	if len(got) != 2 || got.Memory().Value() != 100<<20 || got.StorageEphemeral().Value() != 100 {
		t.Errorf("%v", got)
	}
}
