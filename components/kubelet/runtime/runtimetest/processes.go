package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Program is an image whose entry point is cmd/testimage, at Path in it.
type Program struct{ Image, Path string }

// processes is the part of the contract of engines whose containers run something.
func processes(t *testing.T, s Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"exec": execs, "attach": attaches, "dial": dials, "logs": logs, "mounts": mounts, "security": security,
		"host namespaces": hostNamespaces, "grace": grace, "out of memory": outOfMemory,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// start starts a container of the program in a pod of its own.
func (s Subject) start(t *testing.T, name string, change func(*runtime.SandboxSpec, *runtime.ContainerSpec),
	args ...string) (runtime.PodRef, string) {
	t.Helper()
	pod := ref(name)
	t.Cleanup(func() { s.clean(t, pod.UID) })
	sandbox := &runtime.SandboxSpec{Pod: pod, Image: s.PauseImage, Hostname: name}
	spec := &runtime.ContainerSpec{Pod: pod, Name: "c", Image: s.Program.Image, ImageID: s.Program.Image, Args: args,
		LogMaxSize: "1m", LogMaxFiles: 1}
	if change != nil {
		change(sandbox, spec)
	}
	var err error
	if spec.SandboxID, err = s.Engine.CreateSandbox(t.Context(), sandbox); err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	id, err := s.Engine.CreateContainer(t.Context(), spec)
	if err == nil {
		err = s.Engine.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return pod, id
}

// exec runs a verb of the program in a container and returns its exit code and output.
func (s Subject) exec(t *testing.T, id string, verb ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code, err := s.Engine.Exec(t.Context(), id, runtime.ExecOptions{
		Command: append([]string{s.Program.Path}, verb...), Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("Exec of %v: %v", verb, err)
	}
	return code, out.String()
}

// says waits until a container has written a text.
func (s Subject) says(t *testing.T, id, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	heard := &listener{text: text, heard: cancel}
	_ = s.Engine.Logs(ctx, id, runtime.LogOptions{Follow: true}, heard, io.Discard)
	if !strings.Contains(heard.String(), text) {
		t.Fatalf("the container never said %q, only %q", text, heard.String())
	}
}

// listener calls heard when a text has come.
type listener struct {
	text  string
	heard func()

	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.all.Write(p)
	if strings.Contains(l.all.String(), l.text) {
		l.heard()
	}
	return n, err
}

// String is what has come.
func (l *listener) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// newest is the sandbox of a pod.
func (s Subject) newest(t *testing.T, pod runtime.PodRef) runtime.Sandbox {
	t.Helper()
	found := s.pod(t, pod.UID)
	if found.Sandbox() == nil {
		t.Fatal("the sandbox is gone")
	}
	return *found.Sandbox()
}

// ended waits until the container of a pod has ended.
func (s Subject) ended(t *testing.T, pod runtime.PodRef) runtime.Container {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if c := s.observe(t, pod.UID, "c"); c.State == runtime.Exited {
			return c
		}
	}
	t.Fatal("the container does not end")
	return runtime.Container{}
}

// execs: output, exit codes, what can't be run, and a caller who waits no longer.
func execs(t *testing.T, s Subject) {
	_, id := s.start(t, "exec", nil, "sleep", "forever")
	if code, out := s.exec(t, id, "echo", "a", "b"); code != 0 || out != "a b\n" {
		t.Errorf("code %d, %q", code, out)
	}
	if code, _ := s.exec(t, id, "exit", "7"); code != 7 {
		t.Errorf("code %d, want 7", code)
	}
	var stdout bytes.Buffer
	code, err := s.Engine.Exec(t.Context(), id, runtime.ExecOptions{Command: []string{s.Program.Path, "cat"},
		Stdin: strings.NewReader("through"), Stdout: &stdout})
	if err != nil || code != 0 || stdout.String() != "through" {
		t.Errorf("stdin: code %d, %q, %v", code, stdout.String(), err)
	}
	if code, err := s.Engine.Exec(t.Context(), id, runtime.ExecOptions{Command: []string{"/absent"},
		Stdout: io.Discard}); err == nil && code == 0 {
		t.Error("what isn't there can be run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Engine.Exec(ctx, id, runtime.ExecOptions{Command: []string{s.Program.Path, "sleep", "forever"},
		Stdout: io.Discard}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that outlives its caller: %v", err)
	}
}

// attaches: the first process's streams, until it ends.
func attaches(t *testing.T, s Subject) {
	pod, id := s.start(t, "attach", func(_ *runtime.SandboxSpec, c *runtime.ContainerSpec) {
		c.Stdin, c.StdinOnce = true, true
	}, "cat")
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	var stdout bytes.Buffer
	if err := s.Engine.Attach(ctx, id, runtime.ExecOptions{Stdin: strings.NewReader("through"),
		Stdout: &stdout}); err != nil || stdout.String() != "through" {
		t.Errorf("%q, %v", stdout.String(), err)
	}
	if c := s.ended(t, pod); c.ExitCode != 0 {
		t.Errorf("it ended with code %d", c.ExitCode)
	}
}

// dials: ports of the sandbox's own network, on its loopback interface too.
func dials(t *testing.T, s Subject) {
	pod, _ := s.start(t, "dial", nil, "serve", "--http=127.0.0.1:8080", "--text=here")
	sandbox := s.newest(t, pod).ID
	deadline := time.Now().Add(waitTimeout)
	for {
		answer, err := ask(t.Context(), s.Engine, sandbox, 8080)
		if err == nil && strings.Contains(answer, "here") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the answer is %q, %v", answer, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := ask(t.Context(), s.Engine, sandbox, 8081); err == nil {
		t.Error("a port that no process listens on answers")
	}
}

func ask(ctx context.Context, e runtime.Engine, sandbox string, port int32) (string, error) {
	connection, err := e.Dial(ctx, sandbox, port)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if _, err := fmt.Fprint(connection, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(connection)
	if err == nil && len(answer) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return string(answer), err
}

// logs: both streams, the tail, and a follower that stops.
func logs(t *testing.T, s Subject) {
	pod, id := s.start(t, "logs", nil, "print", "3", "--text=line", "--stderr")
	s.ended(t, pod)
	var stdout, stderr bytes.Buffer
	if err := s.Engine.Logs(t.Context(), id, runtime.LogOptions{}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(stdout.String()+stderr.String(), "line"); n < 3 || stderr.Len() == 0 {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}
	one := int64(1)
	stderr.Reset()
	stdout.Reset()
	if err := s.Engine.Logs(t.Context(), id, runtime.LogOptions{Tail: &one}, &stdout, &stderr); err != nil ||
		strings.Count(stdout.String()+stderr.String(), "line") != 1 {
		t.Errorf("the last line: %q, %q, %v", stdout.String(), stderr.String(), err)
	}
	_, running := s.start(t, "logs-followed", nil, "sleep", "forever")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- s.Engine.Logs(ctx, running, runtime.LogOptions{Follow: true}, io.Discard, io.Discard)
	}()
	select {
	case <-done:
	case <-time.After(waitTimeout):
		t.Error("a follower outlives its context")
	}
}

// mounts: files of the node, read-only where that is asked for.
func mounts(t *testing.T, s Subject) {
	dir, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("of the node"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, id := s.start(t, "mounts", func(_ *runtime.SandboxSpec, c *runtime.ContainerSpec) {
		c.Mounts = []runtime.Mount{{Source: dir, Target: "/read", ReadOnly: true}, {Source: other, Target: "/write"}}
	}, "sleep", "forever")
	if code, out := s.exec(t, id, "cat", "/read/file"); code != 0 || out != "of the node" {
		t.Errorf("code %d, %q", code, out)
	}
	if code, out := s.exec(t, id, "write", "/read/new", "x"); code == 0 || !strings.Contains(out, "read-only") {
		t.Errorf("a read-only mount is written to: code %d, %q", code, out)
	}
	if code, out := s.exec(t, id, "write", "/write/new", "from inside"); code != 0 {
		t.Errorf("code %d, %q", code, out)
	}
	if text, err := os.ReadFile(filepath.Join(other, "new")); err != nil || string(text) != "from inside" {
		t.Errorf("%q, %v", text, err)
	}
}

// security: the user, its groups, and a root that can't be written.
func security(t *testing.T, s Subject) {
	_, id := s.start(t, "security", func(_ *runtime.SandboxSpec, c *runtime.ContainerSpec) {
		c.User, c.Groups, c.ReadOnlyRoot = "1000:2000", []string{"3000"}, true
		c.NoNewPrivs, c.DropCaps = true, []string{"ALL"}
	}, "sleep", "forever")
	if _, out := s.exec(t, id, "whoami"); !strings.Contains(out, "uid=1000 gid=2000") ||
		!strings.Contains(out, "3000") || !strings.Contains(out, "host=security") {
		t.Errorf("it runs as %s", out)
	}
	if code, out := s.exec(t, id, "write", "/new", "x"); code == 0 {
		t.Errorf("the root is written to: %q", out)
	}
}

// hostNamespaces: a pod on the node's network has no address of its own, and one among the node's processes isn't
// process 1.
func hostNamespaces(t *testing.T, s Subject) {
	pod, id := s.start(t, "host-namespaces", func(sandbox *runtime.SandboxSpec, c *runtime.ContainerSpec) {
		sandbox.HostNetwork, sandbox.HostPID, c.HostNetwork, c.HostPID = true, true, true, true
	}, "whoami")
	if ips := s.newest(t, pod).IPs; len(ips) > 0 {
		t.Errorf("it has addresses: %v", ips)
	}
	s.ended(t, pod)
	var out bytes.Buffer
	if err := s.Engine.Logs(t.Context(), id, runtime.LogOptions{}, &out, io.Discard); err != nil ||
		strings.HasSuffix(strings.TrimSpace(out.String()), "pid=1") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// grace: a stop asks, waits, and kills; a later one may shorten it.
func grace(t *testing.T, s Subject) {
	polite, id := s.start(t, "grace-polite", nil, "trap", "--exit=5")
	s.says(t, id, "waiting")
	began := time.Now()
	if err := s.Engine.Stop(t.Context(), id, waitTimeout); err != nil || time.Since(began) > waitTimeout/2 {
		t.Errorf("a container that ends when asked to: %v after %v", err, time.Since(began))
	}
	if c := s.ended(t, polite); c.ExitCode != 5 {
		t.Errorf("it ended with code %d", c.ExitCode)
	}
	deaf, id := s.start(t, "grace-deaf", nil, "trap", "--ignore")
	s.says(t, id, "waiting")
	began = time.Now()
	if err := s.Engine.Stop(t.Context(), id, time.Second); err != nil || time.Since(began) < time.Second {
		t.Errorf("a container that doesn't: %v after %v", err, time.Since(began))
	}
	if c := s.ended(t, deaf); c.ExitCode != 137 {
		t.Errorf("it ended with code %d", c.ExitCode)
	}
	_, id = s.start(t, "grace-shortened", nil, "trap", "--ignore")
	s.says(t, id, "waiting")
	first := make(chan error, 1)
	go func() { first <- s.Engine.Stop(t.Context(), id, time.Hour) }()
	s.says(t, id, "got terminated")
	if err := s.Engine.Stop(t.Context(), id, 0); err != nil {
		t.Errorf("a shorter stop: %v", err)
	}
	select {
	case err := <-first:
		if err != nil {
			t.Errorf("the longer stop: %v", err)
		}
	case <-time.After(waitTimeout):
		t.Error("the longer stop goes on after the container has ended")
	}
}

// outOfMemory: a container that uses more than its limit is killed, and that is seen.
func outOfMemory(t *testing.T, s Subject) {
	pod, _ := s.start(t, "out-of-memory", func(_ *runtime.SandboxSpec, c *runtime.ContainerSpec) {
		c.MemoryBytes = 32 << 20
	}, "allot", "256")
	if c := s.ended(t, pod); !c.OOMKilled || c.ExitCode != 137 {
		t.Errorf("killed for memory: %v, code %d", c.OOMKilled, c.ExitCode)
	}
}
