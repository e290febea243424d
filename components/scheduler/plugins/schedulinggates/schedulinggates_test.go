package schedulinggates

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func TestGated(t *testing.T) {
	pod := func(gates ...string) *snapshot.Pod {
		p := &v1.Pod{}
		for _, name := range gates {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: name})
		}
		return snapshot.NewPod(p)
	}
	for name, test := range map[string]struct {
		pod  *snapshot.Pod
		want string
	}{
		"no gate":   {pod(), ""},
		"one gate":  {pod("example.com/a"), "waiting for scheduling gates: [example.com/a]"},
		"two gates": {pod("example.com/a", "example.com/b"), "waiting for scheduling gates: [example.com/a example.com/b]"},
	} {
		if got := (Plugin{}).Gated(test.pod); got != test.want {
			t.Errorf("%s: gated by %q, want %q", name, got, test.want)
		}
	}
}

func TestOnlyLosingGatesHelps(t *testing.T) {
	hints := Plugin{}.Hints()
	if len(hints) != 1 || hints[0].Kinds != queue.OwnGates {
		t.Errorf("hints %+v", hints)
	}
}
