package queue

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
	"quintet.dev/quintet/internal/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScripts runs the commands in testdata; lines that begin with "> " are what a command prints.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newScript().run(t, string(data))
			golden.Compare(t, file, got)
		})
	}
}

type script struct {
	clock   *clocktesting.FakeClock
	queue   *Queue
	flights map[string]*Item
}

func newScript() *script {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	needsLabel := func(p *snapshot.Pod, e Event) bool { return e.Node.Labels["for"] == p.Obj.Name }
	return &script{clock: clock, flights: map[string]*Item{}, queue: New(Config{
		Clock: clock,
		Hints: Hints{
			"Fit":    {{Kinds: NodeAdded | PodRemoved}, {Kinds: OwnRequests}},
			"Labels": {{Kinds: NodeLabels, Helps: needsLabel}},
			"Gates":  {{Kinds: OwnGates}},
		},
		Gate: func(p *snapshot.Pod) (plugin, reason string) {
			if len(p.Obj.Spec.SchedulingGates) > 0 {
				return "Gates", "it has gates"
			}
			return "", ""
		},
		InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, MaxUnschedulable: 5 * time.Minute,
	})}
}

func (s *script) run(t *testing.T, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "> ") {
			continue
		}
		out.WriteString(line)
		if strings.HasPrefix(line, "#") || line == "\n" {
			continue
		}
		for said := range strings.Lines(s.do(t, strings.Fields(line))) {
			out.WriteString("> " + said)
		}
	}
	return out.String()
}

func (s *script) do(t *testing.T, words []string) string {
	t.Helper()
	switch words[0] {
	case "add", "update":
		s.queue.Add(snapshot.NewPod(pod(words[1:])))
	case "delete":
		s.queue.Delete(pod(words[1:]).UID)
	case "pop":
		return s.pop()
	case "refuse":
		s.queue.Requeue(s.flights[words[1]], words[2:], false)
	case "fail":
		s.queue.Retry(s.flights[words[1]])
	case "done":
		s.queue.Done(s.flights[words[1]])
	case "event":
		s.queue.Move(event(words[1:]))
	case "sleep":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			t.Fatal(err)
		}
		s.clock.Step(d)
	case "show":
		return s.show()
	default:
		t.Fatalf("unknown command %q", words[0])
	}
	return ""
}

func (s *script) pop() string {
	s.queue.mu.Lock()
	i := s.queue.next()
	s.queue.mu.Unlock()
	if i == nil {
		return "nothing\n"
	}
	s.flights[i.Pod.Obj.Name] = i
	return fmt.Sprintf("%s attempt %d\n", i.Pod.Obj.Name, i.Attempts)
}

func (s *script) show() string {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.flush()
	names := []string{"active", "backoff", "failing", "unschedulable", "gated", "in flight"}
	var lines []string
	for _, i := range s.queue.items {
		line := fmt.Sprintf("%s: %s", i.Pod.Obj.Name, names[i.state])
		if i.state == backingOff || i.state == failing {
			line += fmt.Sprintf(" for %v", i.ready.Sub(s.clock.Now()))
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "") + fmt.Sprintf("events kept: %d\n", len(s.queue.events))
}

// pod is "name [gated] [key=value ...]".
func pod(words []string) *v1.Pod {
	gated := slices.Contains(words, "gated")
	return schedulertest.Pod(words[0], strings.Join(slices.DeleteFunc(slices.Clone(words[1:]),
		func(w string) bool { return w == "gated" }), " "), func(p *v1.Pod) {
		if gated {
			p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
		}
	})
}

// event is "kind-bit-name [for=pod]".
func event(words []string) Event {
	e := Event{Node: schedulertest.Node("n", strings.Join(words[1:], " "))}
	for i, name := range kindNames {
		if name == words[0] {
			e.Kind = 1 << i
		}
	}
	return e
}

func TestPopWaits(t *testing.T) {
	s := newScript()
	ctx, cancel := context.WithCancel(t.Context())
	popped := make(chan *Item)
	go func() {
		for {
			i, err := s.queue.Pop(ctx)
			if err != nil {
				close(popped)
				return
			}
			popped <- i
		}
	}()
	for n := range 3 {
		name := strconv.Itoa(n)
		s.queue.Add(snapshot.NewPod(schedulertest.Pod(name, "", nil)))
		if i := <-popped; i.Pod.Obj.Name != name {
			t.Errorf("popped %s", i.Pod.Obj.Name)
		}
	}
	cancel()
	<-popped
}

func TestRunEndsBackOff(t *testing.T) {
	s := newScript()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.queue.Run(ctx)
	}()
	s.queue.Add(snapshot.NewPod(schedulertest.Pod("p", "", nil)))
	i, err := s.queue.Pop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.queue.Retry(i)
	popped := make(chan *Item)
	go func() {
		i, _ := s.queue.Pop(ctx)
		popped <- i
	}()
	for i := (*Item)(nil); i == nil; {
		select {
		case i = <-popped:
		default:
			s.clock.Step(100 * time.Millisecond)
		}
	}
	cancel()
	<-ended
}
