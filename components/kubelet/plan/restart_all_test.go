package plan

import (
	"testing"
	"time"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// A container whose start is under way while the RestartAllContainers rule matches is restarted, too.
func TestRestartAllDuringStart(t *testing.T) {
	s := newSim()
	if err := s.describe([]string{"restart=Never", "init=i", "containers=a:Never/42!,b"}); err != nil {
		t.Fatal(err)
	}
	at := func(seconds int) time.Time { return s.start.Add(time.Duration(seconds) * time.Second) }
	run := func(name string, attempt, created int, state runtime.State, code, finished int) {
		c := runtime.Container{ID: name + string(rune('0'+attempt)), Name: name, Attempt: attempt, SandboxID: "s",
			State: state, Created: at(created), ExitCode: code}
		for _, spec := range Containers(s.in.Pod) {
			if spec.Name == name {
				c.Hash = Hash(spec)
			}
		}
		if state == runtime.Exited {
			c.Finished = at(finished)
		}
		s.in.Observed.Containers = append([]runtime.Container{c}, s.in.Observed.Containers...)
	}
	expect := func(want ...string) {
		t.Helper()
		actions := s.plan().Actions
		var got []string
		for _, a := range actions {
			got = append(got, string(a.Kind)+" "+a.Name)
		}
		if len(got) != len(want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	pending := func(want bool) {
		t.Helper()
		if got := s.plan().Pending; got != want {
			t.Errorf("pending: %v", got)
		}
	}
	s.in.Observed.Sandboxes = []runtime.Sandbox{{ID: "s", State: runtime.Running}}
	s.in.Now = at(10)
	run("i", 0, 0, runtime.Exited, 0, 1)
	run("a", 0, 2, runtime.Exited, 42, 3)
	run("b", 0, 4, runtime.Running, 0, 0) // the start of both was under way
	expect("stop container b")
	pending(true)
	s.in.Observed.Containers[0].State, s.in.Observed.Containers[0].Finished = runtime.Exited, at(5)
	expect("start container i")
	pending(true)
	run("i", 1, 6, runtime.Exited, 0, 7)
	expect("start container a", "start container b")
	pending(false)
	run("a", 1, 8, runtime.Running, 0, 0)
	run("b", 1, 9, runtime.Running, 0, 0)
	expect()
}
