package nodeunschedulable

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func TestFilter(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", ""), schedulertest.Node("b", "unschedulable"))
	cases := map[string]struct {
		change func(*v1.Pod)
		want   map[string]string
	}{
		"cordoned": {nil, map[string]string{"b": "!node(s) were unschedulable"}},
		"tolerated": {func(p *v1.Pod) {
			p.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists}}
		}, map[string]string{}},
	}
	for name, c := range cases {
		if got := schedulertest.Check(Plugin{}, schedulertest.Pod("p", "", c.change),
			s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestHints(t *testing.T) {
	cordoned, free := schedulertest.Node("a", "unschedulable"), schedulertest.Node("a", "")
	p := snapshot.NewPod(schedulertest.Pod("p", "", nil))
	helps := Plugin{}.Hints()[0].Helps
	cases := []struct {
		old, now *v1.Node
		want     bool
	}{{nil, free, true}, {nil, cordoned, false}, {cordoned, free, true}, {free, free, false}}
	for i, c := range cases {
		if got := helps(p, queue.Event{OldNode: c.old, Node: c.now}); got != c.want {
			t.Errorf("%d: got %v", i, got)
		}
	}
}
