package containers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// TestPodman runs the tests that need an engine on a Podman of its own, where Podman and its network are installed.
// They run in another process, as an engine is looked for once in each.
func TestPodman(t *testing.T) {
	podman, err := exec.LookPath("podman")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs podman, and root")
	}
	dir, err := os.MkdirTemp("", "podman") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("umount", filepath.Join(dir, "root", "overlay")).Run()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := "unix://" + filepath.Join(dir, "podman.sock")
	servePodman(t, podman, dir, socket)
	buildOn(t, dir, socket)
	cmd := exec.Command(os.Args[0], "-test.run=^(TestContract|TestMissingImageSaysWhatToDo)$", "-test.v")
	cmd.Env = append(os.Environ(), client.EnvOverrideHost+"="+socket)
	out, err := cmd.CombinedOutput()
	for _, name := range []string{"TestContract", "TestMissingImageSaysWhatToDo"} {
		if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
			t.Fatalf("%v:\n%s", err, out)
		}
	}
}

// servePodman runs a service with files of its own until the test ends.
func servePodman(t *testing.T, podman, dir, socket string) {
	t.Helper()
	var limits [2]syscall.Rlimit
	for i, resource := range []int{syscall.RLIMIT_NOFILE, 6 /* RLIMIT_NPROC */} {
		if err := syscall.Getrlimit(resource, &limits[i]); err != nil {
			t.Fatal(err)
		}
	}
	files, processes := min(limits[0].Max, 1<<16), min(limits[1].Max, 1<<15)
	config := filepath.Join(dir, "containers.conf")
	content := fmt.Sprintf("[containers]\ndefault_ulimits = [\"nofile=%d:%d\", \"nproc=%d:%d\"]\n[engine]\n"+
		"cgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"runc\"\n", files, files, processes, processes)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	service := exec.CommandContext(
		ctx,
		podman,
		"--root",
		filepath.Join(dir, "root"),
		"--runroot",
		filepath.Join(dir, "run"),
		"--tmpdir",
		filepath.Join(dir, "tmp"),
		"--network-config-dir",
		filepath.Join(dir, "networks"),
		"system",
		"service",
		"--time=0",
		socket,
	)
	service.Env = append(os.Environ(), "CONTAINERS_CONF="+config)
	var log strings.Builder
	service.Stdout, service.Stderr = &log, &log
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = service.Wait() // it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	docker, err := client.New(client.WithHost(socket))
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if _, err = docker.Ping(ctx, client.PingOptions{}); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("podman does not serve: %v", err)
		}
	}
}

// buildOn makes the test image.
func buildOn(t *testing.T, dir, socket string) {
	t.Helper()
	program := filepath.Join(dir, "testimage")
	build := exec.Command("go", "build", "-o", program, "quintet.dev/quintet/cmd/testimage")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	files, err := archive("", map[string][]byte{"testimage": content,
		"Dockerfile": []byte("FROM scratch\nCOPY --chmod=755 testimage /usr/local/bin/\n")})
	if err != nil {
		t.Fatal(err)
	}
	docker, err := client.New(client.WithHost(socket))
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	built, err := docker.ImageBuild(t.Context(), files, client.ImageBuildOptions{Tags: []string{testimage}, Remove: true})
	if err != nil {
		t.Fatal(err)
	}
	defer built.Body.Close()
	if err := buildError(built.Body); err != nil {
		t.Fatal(err)
	}
}
