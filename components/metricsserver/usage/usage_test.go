package usage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var pod = types.NamespacedName{Namespace: "ns", Name: "p"}

// second is a time in seconds since the tests' epoch.
func second(n int) time.Time { return time.Unix(1_700_000_000+int64(n), 0) }

// point was measured at a second, of a container that started at another, after so many seconds of CPU time.
func point(at, started, cpu int) Point {
	return Point{At: second(at), Started: second(started), CPU: time.Duration(cpu) * time.Second, Memory: 100}
}

func batch(containers map[string]Point) Batch {
	b := NewBatch()
	b.Pods[pod] = containers
	return b
}

func TestPods(t *testing.T) {
	type containers = map[string]Point
	rate := func(name string, at, window int, cores float64) Container {
		return Container{Name: name, Rate: Rate{At: second(at), Window: time.Duration(window) * time.Second,
			NanoCores: uint64(cores * 1e9), Memory: 100}}
	}
	for name, c := range map[string]struct {
		batches []containers
		want    []Container
	}{
		"one point of an old container": {[]containers{{"c": point(100, 0, 10)}}, nil},
		"two points": {
			[]containers{{"c": point(100, 0, 10)}, {"c": point(115, 0, 25)}},
			[]Container{rate("c", 115, 15, 1)}},
		"three points: the last two count": {
			[]containers{{"c": point(100, 0, 10)}, {"c": point(115, 0, 25)}, {"c": point(130, 0, 55)}},
			[]Container{rate("c", 130, 15, 2)}},
		"nothing measured since": {
			[]containers{{"c": point(100, 0, 10)}, {"c": point(115, 0, 25)}, {"c": point(115, 0, 25)}},
			[]Container{rate("c", 115, 15, 1)}},
		"one point of a container of 12 s": {
			[]containers{{"c": point(112, 100, 6)}},
			[]Container{rate("c", 112, 12, 0.5)}},
		"one point of a container of 5 s": {[]containers{{"c": point(105, 100, 6)}}, nil},
		"a container that restarted is left out": {
			[]containers{{"c": point(100, 0, 10), "d": point(100, 0, 10)}, {"c": point(115, 110, 1), "d": point(115, 0, 25)}},
			[]Container{rate("d", 115, 15, 1)}},
		"and is back after another point": {
			[]containers{{"c": point(100, 0, 10)}, {"c": point(115, 110, 1)}, {"c": point(130, 110, 16)}},
			[]Container{rate("c", 130, 15, 1)}},
		"CPU time that decreased": {
			[]containers{{"c": point(100, 0, 10)}, {"c": point(115, 0, 5)}}, nil},
		"a pod that is gone": {
			[]containers{{"c": point(100, 0, 10)}, {"c": point(115, 0, 25)}, {}}, nil},
		"a pod that was not scraped once begins again": {
			[]containers{{"c": point(100, 0, 10)}, {}, {"c": point(130, 0, 25)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			for _, b := range c.batches {
				s = s.Next(batch(b), 15*time.Second)
			}
			if diff := cmp.Diff(c.want, s.Pod(pod)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNodes(t *testing.T) {
	at := func(n, cpu int) Batch {
		b := NewBatch()
		b.Nodes["n"] = Point{At: second(n), CPU: time.Duration(cpu) * time.Second, Memory: 7}
		return b
	}
	var s State
	s = s.Next(at(0, 10), 15*time.Second)
	if _, ok := s.Node("n"); ok || s.Ready() {
		t.Error("a rate of one point")
	}
	s = s.Next(at(10, 15), 15*time.Second)
	want := Rate{At: second(10), Window: 10 * time.Second, NanoCores: 5e8, Memory: 7}
	for range 2 { // the second time, the kubelet measured nothing since
		if got, ok := s.Node("n"); !ok || got != want || !s.Ready() {
			t.Errorf("got %+v %v", got, ok)
		}
		s = s.Next(at(10, 15), 15*time.Second)
	}
	if s = s.Next(NewBatch(), 15*time.Second); s.Ready() {
		t.Error("a node that was not scraped is known")
	}
}

const exposition = `# HELP container_cpu_usage_seconds_total [STABLE] x
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",namespace="ns",pod="p"} 4.5 1700000001500
container_cpu_usage_seconds_total{container="c",namespace="ns",pod="partial"} 1 1700000001500
container_cpu_usage_seconds_total{container="d",namespace="ns",pod="partial"} 1 1700000001500
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="c",namespace="ns",pod="p"} 1.6e+06 1700000001500
container_memory_working_set_bytes{container="c",namespace="ns",pod="partial"} 5 1700000001500
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="c",namespace="ns",pod="p"} 1.7e+09
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 100
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 200
`

func TestDecode(t *testing.T) {
	got, err := Decode(strings.NewReader(exposition), "n", second(3))
	if err != nil {
		t.Fatal(err)
	}
	want := NewBatch()
	want.Nodes["n"] = Point{At: second(3), CPU: 100 * time.Second, Memory: 200}
	want.Pods[pod] = map[string]Point{"c": {At: second(1).Add(500 * time.Millisecond), Started: second(0),
		CPU: 4500 * time.Millisecond, Memory: 1_600_000}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := Decode(strings.NewReader("container_cpu{"), "n", second(3)); err == nil {
		t.Errorf("decoded %v", got)
	}
	if got, err := Decode(strings.NewReader("node_cpu_usage_seconds_total 1\n"), "n", second(3)); err != nil ||
		len(got.Nodes) != 0 {
		t.Errorf("a node without memory: %v, %v", got, err)
	}
}
