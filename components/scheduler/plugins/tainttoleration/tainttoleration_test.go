package tainttoleration

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/schedulertest"
)

func tolerate(effect v1.TaintEffect) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists, Effect: effect}}
	}
}

func TestFilter(t *testing.T) {
	const refused = "!node(s) had untolerated taint(s)"
	s := schedulertest.Snapshot(
		schedulertest.Node("free", ""), schedulertest.Node("hard", "taint=NoSchedule"),
		schedulertest.Node("soft", "taint=PreferNoSchedule"), schedulertest.Node("out", "taint=NoExecute"))
	cases := map[string]struct {
		change func(*v1.Pod)
		want   map[string]string
	}{
		"none":       {nil, map[string]string{"hard": refused, "out": refused}},
		"one effect": {tolerate(v1.TaintEffectNoSchedule), map[string]string{"out": refused}},
		"any effect": {tolerate(""), map[string]string{}},
	}
	for name, c := range cases {
		if got := schedulertest.Check(Plugin{}, schedulertest.Pod("p", "", c.change),
			s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestScore(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("free", ""), schedulertest.Node("soft", "taint=PreferNoSchedule"))
	if got, want := schedulertest.Scores(Plugin{}, schedulertest.Pod("p", "", nil),
		s), (map[string]int64{"free": 100, "soft": 0}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := schedulertest.Scores(Plugin{}, schedulertest.Pod("p", "", tolerate("")), s); got != nil {
		t.Errorf("a pod that tolerates all has preferences %v", got)
	}
}
