package pods

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
	"quintet.dev/quintet/components/kubelet/spec"
)

func TestWhatIsRemovedIsForgotten(t *testing.T) {
	s := newState(&v1.Pod{})
	for _, id := range []string{"there", "removed"} {
		s.resize.renewed[id], s.messages[id], s.resize.tries[id] = true, "bye", time.Unix(1, 0)
	}
	s.resize.tries["under way"] = time.Time{}
	s.observed = runtime.Pod{Containers: []runtime.Container{{ID: "there"}}}
	s.forgetRemoved()
	if !s.resize.renewed["there"] || len(s.resize.renewed) != 1 || s.messages["there"] == "" || len(s.messages) != 1 {
		t.Errorf("left: %v, %v", s.resize.renewed, s.messages)
	}
	if _, under := s.resize.tries["under way"]; !under || len(s.resize.tries) != 2 {
		t.Errorf("left: %v", s.resize.tries)
	}
}

// unlistable is an engine that can't list its containers.
type unlistable struct{ runtime.Engine }

func (unlistable) Pods(context.Context) ([]runtime.Pod, error) { return nil, errors.New("no answer") }

// An engine that lists nothing for long makes the node not ready.
func TestListsThatFailAreTold(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	m := New(Config{Builder: &spec.Builder{}, Clock: now})
	m.Engine = unlistable{}
	now.Step(time.Hour)
	if err := m.Healthy(); err != nil {
		t.Errorf("before it runs: %v", err)
	}
	m.relist(t.Context())
	now.Step(time.Minute)
	m.relist(t.Context()) // still the same failure
	now.Step(2 * time.Minute)
	if err := m.Healthy(); err != nil {
		t.Errorf("at the threshold: %v", err)
	}
	now.Step(5 * time.Second)
	const want = "PLEG is not healthy: pleg was last seen active 3m5s ago; threshold is 3m0s"
	if err := m.Healthy(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	m.Engine = hollow.New(hollow.Options{Clock: now})
	m.relist(t.Context())
	now.Step(time.Hour)
	if err := m.Healthy(); err != nil {
		t.Errorf("after a list: %v", err)
	}
}
