package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/runtimetest"
)

const owner = "quintet.owner"

// name is of what this process has the engine make: another copy of this test may use the same engine.
func name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("quintet-runtime-test-%s-%d", strings.ToLower(host), os.Getpid())
}

func image() string { return name() + ":dev" }

// podRange makes a network of pods in a range that no other one has, and returns the range.
func podRange(t *testing.T, e *Engine) string {
	t.Helper()
	for i := range 256 {
		cidr := fmt.Sprintf("10.253.%d.0/24", i)
		err := e.SetPodCIDRs(t.Context(), []string{cidr})
		if err == nil {
			return cidr
		}
		if !strings.Contains(err.Error(), "overlaps") {
			t.Fatal(err)
		}
	}
	t.Fatal("no range is free")
	return ""
}

// program is all that the test's containers do: wait, or say something and exit, or write and read.
const program = `package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "sleep":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		<-signals
	case "say":
		fmt.Println(os.Args[2])
		fmt.Fprintln(os.Stderr, "to stderr")
		code, _ := strconv.Atoi(os.Args[3])
		os.Exit(code)
	case "count":
		lines, _ := strconv.Atoi(os.Args[2])
		for i := range lines {
			fmt.Printf("line %d of those that are counted\n", i)
			if i%1000 == 999 {
				fmt.Println(strings.Repeat("x", 40000))
				time.Sleep(20 * time.Millisecond)
			}
		}
	case "copy":
		io.Copy(os.Stdout, os.Stdin)
	case "device":
		device, err := os.OpenFile(os.Args[2], os.O_RDWR, 0)
		if err == nil {
			_, err = device.Write([]byte("x"))
		}
		content, _ := os.ReadFile(os.Args[3])
		fmt.Println(os.Getenv("WIDGET"), string(content), err)
	}
}
`

// TestMain leaves no image behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if e, err := New(context.Background(), Options{Endpoint: endpoint()}); err == nil {
		_, _ = e.api.ImageRemove(context.Background(), image(), client.ImageRemoveOptions{})
		_ = e.Close()
	}
	os.Exit(code)
}

func endpoint() string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return host
	}
	return client.DefaultDockerHost
}

// engine returns an engine with the test image, and skips the test where no engine answers (but not in CI).
func engine(t *testing.T) *Engine {
	t.Helper()
	e, err := New(t.Context(), Options{
		Endpoint: endpoint(), Node: name() + "-" + strings.ToLower(t.Name()), Network: name(),
		Labels: map[string]string{owner: "runtime-test"},
	})
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("no docker engine: %v", err)
	}
	t.Cleanup(func() {
		_, _ = e.api.NetworkRemove(context.Background(), e.options.Network, client.NetworkRemoveOptions{})
		_ = e.Close()
	})
	build(t, e)
	return e
}

// build imports an image that holds one static program.
func build(t *testing.T, e *Engine) {
	t.Helper()
	if _, err := e.Image(t.Context(), image()); err == nil {
		return
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", binary, source)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	importImage(t, e, data, image())
}

// importImage makes an image of one file, the program.
func importImage(t *testing.T, e *Engine, data []byte, ref string) {
	t.Helper()
	var archive bytes.Buffer
	files := tar.NewWriter(&archive)
	if err := files.WriteHeader(&tar.Header{Name: "program", Mode: 0o755, Size: int64(len(data))}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	imported, err := e.api.ImageImport(t.Context(), client.ImageImportSource{Source: &archive,
		SourceName: "-"}, ref,
		client.ImageImportOptions{Changes: []string{`ENTRYPOINT ["/program"]`, `CMD ["sleep"]`}})
	if err != nil {
		t.Fatal(err)
	}
	defer imported.Close()
	if _, err := io.Copy(io.Discard, imported); err != nil {
		t.Fatal(err)
	}
}

func TestContract(t *testing.T) {
	e := engine(t)
	runtimetest.Run(t, runtimetest.Subject{Engine: e, PauseImage: image(), Image: image(), Sleep: []string{"sleep"},
		PodCIDRs: []string{podRange(t, e)}, Spare: spare(t, e),
		Program: runtimetest.Program{Image: testImage(t, e), Path: "/program"}})
}

// testImage makes an image of the suite's test program.
func testImage(t *testing.T, e *Engine) string {
	t.Helper()
	binary, ref := filepath.Join(t.TempDir(), "testimage"), name()+":testimage"
	command := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", binary,
		"quintet.dev/quintet/cmd/testimage")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	importImage(t, e, data, ref)
	t.Cleanup(func() {
		_, _ = e.api.ImageRemove(context.Background(), ref, client.ImageRemoveOptions{Force: true})
	})
	return ref
}

// spare makes an image with two names.
func spare(t *testing.T, e *Engine) [2]string {
	t.Helper()
	names := [2]string{name() + ":spare", name() + "-too:spare"}
	importImage(t, e, []byte("nothing to run"), names[0])
	if _, err := e.api.ImageTag(t.Context(), client.ImageTagOptions{Source: names[0], Target: names[1]}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // where the test ended before it removed the image
		for _, name := range names {
			_, _ = e.api.ImageRemove(context.Background(), name, client.ImageRemoveOptions{})
		}
	})
	return names
}

// run makes a pod with one container and returns its ID.
func run(t *testing.T, e *Engine, change func(*runtime.ContainerSpec), args ...string) (types.UID, string) {
	t.Helper()
	ctx := t.Context()
	podRange(t, e)
	pod := runtime.PodRef{UID: types.UID(strings.ToLower(t.Name())), Namespace: "ns", Name: "pod"}
	sandbox, err := e.CreateSandbox(ctx, &runtime.SandboxSpec{Pod: pod, Image: image(), Hostname: "pod"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Remove(context.Background(), sandbox) })
	spec := &runtime.ContainerSpec{
		Pod: pod, Name: "c", SandboxID: sandbox, Image: image(), ImageID: image(), Args: args, LogMaxSize: "1m",
		LogMaxFiles: 1,
	}
	if change != nil {
		change(spec)
	}
	id, err := e.CreateContainer(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Remove(context.Background(), id) })
	if err := e.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	return pod.UID, id
}

func await(t *testing.T, e *Engine, uid types.UID) runtime.Container {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		pod, err := e.Pod(t.Context(), uid)
		if err != nil {
			t.Fatal(err)
		}
		if c := pod.Container("c"); c != nil && c.State == runtime.Exited {
			return *c
		}
	}
	t.Fatal("the container did not end")
	return runtime.Container{}
}

func TestExitCodeAndLogs(t *testing.T) {
	e := engine(t)
	uid, id := run(t, e, nil, "say", "hello", "3")
	if c := await(t, e, uid); c.ExitCode != 3 || c.Finished.Before(c.Started) {
		t.Errorf("got %+v", c)
	}
	var stdout, stderr bytes.Buffer
	if err := e.Logs(t.Context(), id, runtime.LogOptions{Follow: true}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != "hello\n" || stderr.String() != "to stderr\n" {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}
	none := int64(0)
	stdout.Reset()
	if err := e.Logs(t.Context(), id, runtime.LogOptions{Tail: &none}, &stdout, nil); err != nil || stdout.Len() > 0 {
		t.Errorf("tail 0: %q, %v", stdout.String(), err)
	}
}

func TestExec(t *testing.T) {
	e := engine(t)
	_, id := run(t, e, nil, "sleep")
	var stdout, stderr bytes.Buffer
	code, err := e.Exec(t.Context(), id, runtime.ExecOptions{Command: []string{"/program", "say", "hi", "4"},
		Stdout: &stdout, Stderr: &stderr})
	if err != nil || code != 4 || stdout.String() != "hi\n" || stderr.String() != "to stderr\n" {
		t.Errorf("code %d, stdout %q, stderr %q, %v", code, stdout.String(), stderr.String(), err)
	}
	stdout.Reset()
	code, err = e.Exec(t.Context(), id,
		runtime.ExecOptions{Command: []string{"/program", "copy"}, Stdin: strings.NewReader("through"),
			Stdout: &stdout})
	if err != nil || code != 0 || stdout.String() != "through" {
		t.Errorf("copy: code %d, stdout %q, %v", code, stdout.String(), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := e.Exec(ctx, id,
		runtime.ExecOptions{Command: []string{"/program", "sleep"}, Stdout: &stdout}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("a command that takes too long: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		inspected, err := e.api.ContainerTop(t.Context(), id, client.ContainerTopOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(inspected.Processes) == 1 {
			break // only the container's own process is left
		}
		if time.Now().After(deadline) {
			t.Fatalf("a command that took too long goes on: %v", inspected.Processes)
		}
	}
}

func TestStartFailureIsToldInTheContainer(t *testing.T) {
	e := engine(t)
	ctx := t.Context()
	podRange(t, e)
	pod := runtime.PodRef{UID: "start-failure", Namespace: "ns", Name: "pod"}
	sandbox, err := e.CreateSandbox(ctx, &runtime.SandboxSpec{Pod: pod, Image: image()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Remove(context.Background(), sandbox) })
	id, err := e.CreateContainer(ctx, &runtime.ContainerSpec{
		Pod: pod, Name: "c", SandboxID: sandbox, Image: image(), ImageID: image(), Command: []string{"/absent"},
		LogMaxSize: "1m", LogMaxFiles: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Remove(context.Background(), id) })
	if err := e.Start(ctx, id); err == nil {
		t.Fatal("a program that is not there was started")
	}
	got, err := e.Pod(ctx, pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Container("c"); c.State != runtime.Exited || c.StartErr == "" || c.ExitCode == 0 {
		t.Errorf("got %+v", c)
	}
}

func TestMountsAndLimits(t *testing.T) {
	e := engine(t)
	dir := t.TempDir()
	_, id := run(t, e, func(s *runtime.ContainerSpec) {
		s.Mounts = []runtime.Mount{{Source: dir, Target: "/data", ReadOnly: true}}
		s.MemoryBytes, s.CPUShares, s.CPUQuota, s.CPUPeriod = 64<<20, 512, 50000, 100000
		s.DropCaps, s.ReadOnlyRoot, s.NoNewPrivs, s.Seccomp = []string{"ALL"}, true, true, "unconfined"
	}, "sleep")
	answer, err := e.api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host := answer.Container.HostConfig
	if host.Memory != 64<<20 || host.CPUShares != 512 || host.CPUQuota != 50000 || !host.ReadonlyRootfs ||
		len(host.Mounts) != 1 || !host.Mounts[0].ReadOnly {
		t.Errorf("got %+v", host)
	}
}

// What has ended can't be attached to; the engine alone would let the stream wait for a next start.
func TestAttachToWhatHasEnded(t *testing.T) {
	e := engine(t)
	uid, id := run(t, e, nil, "say", "hello", "0")
	await(t, e, uid)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := e.Attach(ctx, id, runtime.ExecOptions{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{},
		Stderr: &bytes.Buffer{}})
	if err == nil || ctx.Err() != nil {
		t.Errorf("got %v", err)
	}
}

// The whole machine can be mounted, the engine's own files among it.
func TestTheRootIsMounted(t *testing.T) {
	e := engine(t)
	uid, _ := run(t, e, func(s *runtime.ContainerSpec) { s.Mounts = []runtime.Mount{{Source: "/", Target: "/host"}} },
		"say", "hello", "0")
	if c := await(t, e, uid); c.ExitCode != 0 || c.StartErr != "" {
		t.Errorf("got %+v", c)
	}
}

func TestDisk(t *testing.T) {
	e := engine(t)
	uid, id := run(t, e, nil, "say", strings.Repeat("hello", 1000), "0")
	await(t, e, uid)
	var archive bytes.Buffer
	files := tar.NewWriter(&archive)
	if err := files.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.api.CopyToContainer(t.Context(), id,
		client.CopyToContainerOptions{DestinationPath: "/", Content: &archive}); err != nil {
		t.Fatal(err)
	}
	usage, err := e.Disk(t.Context(), id)
	if err != nil || usage.Written < 1<<20 || usage.Written > 2<<20 {
		t.Errorf("got %+v, %v", usage, err)
	}
	if _, err := os.Stat("/var/lib/docker/containers"); err == nil && usage.Logs < 5000 {
		t.Errorf("logs: %d", usage.Logs)
	}
}
