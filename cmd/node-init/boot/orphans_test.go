package boot

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// containerID is an ID that ends in name, which has letters from a to f.
func containerID(name string) string { return strings.Repeat("0", 64-len(name)) + name }

func TestOrphans(t *testing.T) {
	a, b, c := containerID("a"), containerID("b"), containerID("c")
	for _, test := range []struct {
		name    string
		list    []string
		running []string
		want    []string
	}{
		{name: "nothing"},
		{name: "all known as running", list: []string{a, b}, running: []string{a, b, c}},
		{name: "those not known as running, sorted", list: []string{c, a, b}, running: []string{a}, want: []string{b, c}},
		{name: "one listed twice", list: []string{c, c}, want: []string{c}},
		{name: "words of a warning", list: []string{"time=now", a[:12], strings.Repeat("z", 64), b}, want: []string{b}},
	} {
		running := map[string]bool{}
		for _, id := range test.running {
			running[id] = true
		}
		if got := orphans(strings.Join(test.list, "\n"), running); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestRunningContainers(t *testing.T) {
	dir := t.TempDir()
	for id, state := range map[string]string{
		"running": `{"ID": "running", "State": {"Running": true, "Pid": 7}}`,
		"paused":  `{"State": {"Running": true, "Paused": true}}`,
		"created": `{"State": {"Running": false, "Pid": 0}}`,
		"exited":  `{"State": {"ExitCode": 1}}`,
		"broken":  `{"State": {"Running": true`,
		"removed": "",
	} {
		writeState(t, dir, id, state)
	}
	got, err := runningContainers(dir)
	if want := map[string]bool{"running": true, "paused": true}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := runningContainers(filepath.Join(dir, "none")); err == nil {
		t.Error("no state: no error, so that all containers are orphans")
	}
}

// writeState writes the state that dockerd has of a container; "" is one without a file.
func writeState(t *testing.T, dir, id, state string) {
	t.Helper()
	err := os.MkdirAll(filepath.Join(dir, id), 0o755)
	if state != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, id, "config.v2.json"), []byte(state), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fakeContainerd runs the commands of containerd's client.
type fakeContainerd struct {
	tasks, containers map[string]bool
	stuck             map[string]bool // tasks that can't be deleted
}

func (f *fakeContainerd) run(_ context.Context, argv ...string) (string, error) {
	words := argv[3:] // after the client's own flags
	set, running := f.containers, f.tasks
	if words[0] == "tasks" {
		set, running = f.tasks, f.stuck
	}
	if words[1] == "list" {
		return strings.Join(slices.Collect(maps.Keys(set)), "\n"), nil
	}
	var err error
	for _, id := range words[3:] {
		if running[id] {
			err = errors.New("it runs")
			continue
		}
		delete(set, id)
	}
	return "", err
}

// killer is an orphanKiller of a containerd that has tasks for a and b, and a container without one, c; dockerd knows
// that a runs.
func killer(t *testing.T) (*orphanKiller, *fakeContainerd) {
	t.Helper()
	a, b, c := containerID("a"), containerID("b"), containerID("c")
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "containerd.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	writeState(t, dir, a, `{"State": {"Running": true}}`)
	writeState(t, dir, b, `{"State": {"Running": false}}`)
	fake := &fakeContainerd{
		tasks: map[string]bool{a: true, b: true}, containers: map[string]bool{a: true, b: true, c: true},
		stuck: map[string]bool{},
	}
	return &orphanKiller{run: fake.run, socket: listener.Addr().String(), namespace: "moby", containers: dir}, fake
}

func TestOrphansAreKilled(t *testing.T) {
	k, fake := killer(t)
	if err := k.killOrphans(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{containerID("a"): true}
	if !maps.Equal(fake.tasks, want) || !maps.Equal(fake.containers, want) {
		t.Errorf("tasks %v, containers %v", fake.tasks, fake.containers)
	}
}

// TestKillingOrphansIsBounded: what can't be done does not keep dockerd down.
func TestKillingOrphansIsBounded(t *testing.T) {
	for name, breaks := range map[string]func(k *orphanKiller, f *fakeContainerd){
		"a task that stays":       func(_ *orphanKiller, f *fakeContainerd) { f.stuck[containerID("b")] = true },
		"containerd is down":      func(k *orphanKiller, _ *fakeContainerd) { k.socket += ".none" },
		"containerd gives errors": func(k *orphanKiller, _ *fakeContainerd) { k.run = failingRun },
	} {
		k, fake := killer(t)
		breaks(k, fake)
		ctx, cancel := context.WithTimeout(t.Context(), 3*orphanPoll)
		if err := k.killOrphans(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if !fake.tasks[containerID("a")] {
			t.Errorf("%s: a container that dockerd knows as running was killed", name)
		}
	}
}

// TestNoOrphansWithoutState: where dockerd keeps its state elsewhere, nothing is killed, and nothing waited for.
func TestNoOrphansWithoutState(t *testing.T) {
	k, fake := killer(t)
	k.containers += "/none"
	if err := k.killOrphans(t.Context()); err != nil || len(fake.tasks) != 2 {
		t.Errorf("%v, tasks %v", err, fake.tasks)
	}
}

func failingRun(context.Context, ...string) (string, error) { return "", errors.New("it fails") }

func TestDockerNamespace(t *testing.T) {
	argv, err := dockerdCommand(t.TempDir())
	if got := dockerNamespace(argv); err != nil || got != "moby" {
		t.Errorf("%q, %v", got, err)
	}
	if got := dockerNamespace(append(argv, "--containerd-namespace=own")); got != "own" {
		t.Errorf("%q", got)
	}
}

// TestServiceIsPreparedBeforeRestarts: not before the first start; the service waits for it, and a stop ends it.
func TestServiceIsPreparedBeforeRestarts(t *testing.T) {
	s, socket := supervised(t)
	began, goOn := make(chan struct{}, 8), make(chan error)
	prepare := func(ctx context.Context) error {
		began <- struct{}{}
		select {
		case err := <-goOn:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := s.add(service{
		name: "sleeper", argv: []string{"sleep", "1000"}, output: os.Stderr, beforeRestart: prepare,
	}); err != nil {
		t.Fatal(err)
	}
	first := runningPid(t, socket)
	if len(began) != 0 {
		t.Error("prepared before the first start")
	}
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-began
	if pid, status := pid(socket); pid != 0 {
		t.Errorf("while it is prepared: %s", status)
	}
	goOn <- errors.New("a failure does not keep it down")
	second := runningPid(t, socket)
	if err := unix.Kill(second, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-began
	stopped := time.Now()
	if err := s.stop("sleeper"); err != nil || time.Since(stopped) > restartPreparation/2 {
		t.Errorf("stop while it is prepared: %v after %s", err, time.Since(stopped))
	}
	if err := s.start("sleeper"); err != nil {
		t.Fatal(err)
	}
	<-began
	goOn <- nil
	runningPid(t, socket)
}
