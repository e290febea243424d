package plan

import (
	"testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// A container that was made for a sandbox that did not last, and never ran, is no run that another one follows.
func TestWhatNeverRanIsNotRestarted(t *testing.T) {
	s := newSim()
	if err := s.describe([]string{"restart=Never", "grace=1", "init=i", "containers=a"}); err != nil {
		t.Fatal(err)
	}
	s.in.Observed.Containers = []runtime.Container{{ID: "i-0", Name: "i", SandboxID: "lost", State: runtime.Created}}
	s.in.Observed.Sandboxes = []runtime.Sandbox{{ID: "sandbox-0", State: runtime.Running}}
	p := s.plan()
	if len(p.Actions) != 1 || p.Actions[0].Kind != StartContainer || p.Actions[0].Attempt != 0 {
		t.Errorf("planned %v", p.Actions)
	}
}

func TestEnded(t *testing.T) {
	for policy, want := range map[string]map[string]bool{
		"Never":     {"bad": true, "good": true},
		"OnFailure": {"good": true},
		"Always":    {},
	} {
		s := newSim()
		if err := s.describe([]string{"restart=" + policy, "grace=1", "containers=bad,good,runs"}); err != nil {
			t.Fatal(err)
		}
		s.apply(s.plan())
		s.apply(s.plan())
		s.exit("bad-0", 1)
		s.exit("good-0", 0)
		p := s.plan()
		for _, name := range []string{"bad", "good", "runs"} {
			if p.Ended[name] != want[name] {
				t.Errorf("%s: %s ended for good: %v", policy, name, p.Ended[name])
			}
		}
		s.in.Stop = &Stop{Since: s.in.Now}
		if p := s.plan(); !p.Ended["bad"] || p.Ended["runs"] {
			t.Errorf("%s: of a pod that is ended: %v", policy, p.Ended)
		}
	}
}
