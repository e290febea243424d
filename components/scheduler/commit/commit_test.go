package commit

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// step is a plug-in that records what it is asked, and fails where it is told to.
type step struct {
	name, fails string
	waits       time.Duration
	log         *[]string
}

func (s *step) Name() string { return s.name }

func (s *step) do(what string) *Status {
	*s.log = append(*s.log, what+" "+s.name)
	if s.fails == what {
		return &Status{Reasons: []string{what + " refused"}}
	}
	if s.fails == what+"!" {
		return &Status{Err: errors.New("broken")}
	}
	return nil
}

func (s *step) Reserve(context.Context, *Placement) *Status { return s.do("reserve") }
func (s *step) Unreserve(context.Context, *Placement)       { s.do("unreserve") }
func (s *step) Permit(context.Context, *Placement) (time.Duration, *Status) {
	return s.waits, s.do("permit")
}
func (s *step) PreFlight(context.Context, *Placement) (bool, *Status) { return s.name != "b", nil }
func (s *step) PreBind(context.Context, *Placement) *Status           { return s.do("prebind") }
func (s *step) Bind(context.Context, *Placement) (bool, *Status)      { return s.name == "b", s.do("bind") }

func profileOf(waiting *Waiting, steps ...*step) *Profile {
	f := &Profile{Waiting: waiting}
	for _, s := range steps {
		f.Reserves, f.Permits = append(f.Reserves, s), append(f.Permits, s)
		f.PreBinds, f.Binds = append(f.PreBinds, s), append(f.Binds, s)
	}
	return f
}

func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		fails   string
		message string
		want    []string
	}{
		"all": {want: []string{"reserve a", "reserve b", "permit a", "permit b", "prebind a", "bind a", "bind b"}},
		"reserve": {"reserve", "0/1 nodes are available: 1 reserve refused.",
			[]string{"reserve a", "unreserve b", "unreserve a"}},
		"permit": {"permit!", `running Permit plugin "a": broken`,
			[]string{"reserve a", "reserve b", "permit a", "unreserve b", "unreserve a"}},
		"prebind": {"prebind!", `running PreBind plugin "a": broken`,
			[]string{"reserve a", "reserve b", "permit a", "permit b", "prebind a", "unreserve b", "unreserve a"}},
	} {
		var log []string
		f := profileOf(NewWaiting(clocktesting.NewFakeClock(time.Unix(0, 0))),
			&step{name: "a", fails: c.fails, log: &log}, &step{name: "b", log: &log})
		p := &Placement{Pod: snapshot.NewPod(schedulertest.Pod("p", "", nil)), Node: "n"}
		status := f.Reserve(t.Context(), p)
		if status == nil {
			_, status = f.Permit(t.Context(), p)
		}
		if status == nil {
			status = f.PreBind(t.Context(), p)
		}
		if status == nil {
			status = f.Bind(t.Context(), p)
		}
		message := ""
		if status != nil {
			f.Unreserve(t.Context(), p)
			message = status.Message()
			if status.Plugin != "a" {
				t.Errorf("%s: plug-in %q", name, status.Plugin)
			}
		}
		if message != c.message || !slices.Equal(log, c.want) {
			t.Errorf("%s: %q, %q", name, message, log)
		}
	}
}

// waits is a pod that waits for two plug-ins.
func waits(t *testing.T) (*Profile, *Placement, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	var log []string
	f := profileOf(NewWaiting(clock), &step{name: "a", waits: time.Second, log: &log},
		&step{name: "b", waits: time.Hour, log: &log})
	p := &Placement{Pod: snapshot.NewPod(schedulertest.Pod("p", "", nil)), Node: "n"}
	wait, status := f.Permit(t.Context(), p)
	if !wait || status != nil {
		t.Fatalf("wait %v, status %v", wait, status)
	}
	return f, p, clock
}

func TestAllowed(t *testing.T) {
	f, p, _ := waits(t)
	w := f.Waiting.Get(p.Pod.UID())
	w.Allow("a")
	if pending := w.GetPendingPlugins(); !slices.Equal(pending, []string{"b"}) {
		t.Errorf("pending %v", pending)
	}
	w.Allow("b")
	if status := f.WaitOnPermit(t.Context(), p); status != nil {
		t.Errorf("status %v", status.Message())
	}
	if f.Waiting.Get(p.Pod.UID()) != nil || w.Reject("a", "late") {
		t.Error("the pod still waits")
	}
}

func TestTimesOut(t *testing.T) {
	f, p, clock := waits(t)
	clock.Step(time.Second)
	status := f.WaitOnPermit(t.Context(), p)
	if status == nil || status.Plugin != "a" ||
		status.Error().Error() != "rejected due to timeout after waiting 1s at plugin a" {
		t.Errorf("status %+v", status)
	}
}

func TestRejected(t *testing.T) {
	f, p, _ := waits(t)
	if !f.Waiting.Reject(p.Pod.UID()) {
		t.Error("the pod does not wait")
	}
	if status := f.WaitOnPermit(t.Context(), p); status == nil || status.Plugin != "" {
		t.Errorf("status %+v", status)
	}
}
