package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// theReaper is the only one of this process, as of a node: two would take each other's children.
var theReaper = sync.OnceValue(newReaper)

// supervised is a supervisor behind its control socket; both end with the test.
func supervised(t *testing.T) (*supervisor, string) {
	t.Helper()
	s := newSupervisor(theReaper())
	socket := filepath.Join(t.TempDir(), "control")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveControl(ctx, socket, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.stopAll()
	})
	eventually(t, func() error { return ask(socket, "status", nil, &strings.Builder{}) })
	return s, socket
}

func TestServicesAreKeptAndControlled(t *testing.T) {
	s, socket := supervised(t)
	if err := s.add(service{name: "sleeper", argv: []string{"sleep", "1000"}, output: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	first := runningPid(t, socket)
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if pid, _ := pid(socket); pid == 0 || pid == first {
			return errors.New("not started again")
		}
		return nil
	})
	for _, step := range []struct {
		verb string
		runs bool
	}{{"stop", false}, {"stop", false}, {"start", true}, {"start", true}, {"restart", true}, {"stop", false}} {
		if err := ask(socket, step.verb, []string{"sleeper"}, &strings.Builder{}); err != nil {
			t.Fatalf("%s: %v", step.verb, err)
		}
		if step.runs {
			runningPid(t, socket)
		} else if pid, status := pid(socket); pid != 0 {
			t.Errorf("after %s: %s", step.verb, status)
		}
	}
}

func TestControlNamesWhatIsWrong(t *testing.T) {
	s, socket := supervised(t)
	if err := ask(socket, "stop", []string{"nobody"}, &strings.Builder{}); err == nil ||
		!strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("stop of an unknown service: %v", err)
	}
	if err := ask(socket, "stop", nil, &strings.Builder{}); err == nil {
		t.Error("stop of nothing: no error")
	}
	if err := s.add(service{name: "none", argv: []string{"/no/such/program"}}); err == nil {
		t.Error("a program that does not exist: no error")
	}
}

func TestReaperCollectsOrphans(t *testing.T) {
	s := newSupervisor(theReaper())
	t.Cleanup(s.stopAll)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skipf("can't adopt orphans: %v", err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	// The shell leaves a child that outlives it, and tells its number.
	file := filepath.Join(t.TempDir(), "pid")
	err := s.add(service{name: "parent",
		argv: []string{"sh", "-c", "sleep 0.2 & echo $! >" + file + "; exec sleep 1000"}, output: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		var orphan int
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := fmt.Sscan(string(content), &orphan); err != nil {
			return err
		}
		_ = s.stop("parent")
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", orphan)); !os.IsNotExist(err) {
			return fmt.Errorf("orphan %d is still there", orphan)
		}
		return nil
	})
}

func TestImagesAreLoadedOnce(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "docker.sock")
	var loads []int64
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_ping", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /images/load", func(w http.ResponseWriter, r *http.Request) {
		size, _ := io.Copy(io.Discard, r.Body)
		loads = append(loads, size)
		if size == 3 {
			fmt.Fprint(w, `{"stream":"reading"}{"error":"broken archive"}`)
		}
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	client := engineClient(socket)
	e := engine{name: "dockerd", loaded: filepath.Join(dir, "loaded"),
		ready: func(ctx context.Context) error { return ping(ctx, client) },
		load:  func(ctx context.Context, archive string) error { return loadImage(ctx, client, archive) }}
	if err := e.wait(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	images := filepath.Join(dir, "images")
	must(t, os.Mkdir(images, 0o755))
	must(t, os.WriteFile(filepath.Join(images, "a.tar"), []byte("12345"), 0o600))
	must(t, e.loadImages(t.Context(), images))
	must(t, e.loadImages(t.Context(), images))
	if !slices.Equal(loads, []int64{5}) {
		t.Errorf("loads of %v bytes, want one of 5", loads)
	}
	must(t, os.WriteFile(filepath.Join(images, "b.tar"), []byte("bad"), 0o600))
	for range 2 {
		if err := e.loadImages(t.Context(), images); err == nil ||
			!strings.Contains(err.Error(), "broken archive") {
			t.Errorf("a broken archive: %v", err)
		}
	}
}

func TestHostnameOverrideIsShared(t *testing.T) {
	for _, test := range []struct{ args, want []string }{
		{nil, nil},
		{[]string{"--v=2", "--hostname-override=a"}, []string{"--hostname-override=a"}},
		{[]string{"--hostname-override", "b", "--v=2"}, []string{"--hostname-override=b"}},
		{[]string{"--hostname-override"}, nil},
	} {
		if got := hostnameOverride(test.args); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.args, got, test.want)
		}
	}
}

// pid reads the number of the first service's process from the status, 0 when it does not run.
func pid(socket string) (int, string) {
	var status strings.Builder
	if err := ask(socket, "status", nil, &status); err != nil {
		return 0, err.Error()
	}
	_, after, ok := strings.Cut(status.String(), "pid=")
	if !ok {
		return 0, status.String()
	}
	var number int
	_, _ = fmt.Sscan(after, &number)
	return number, status.String()
}

func runningPid(t *testing.T, socket string) (number int) {
	t.Helper()
	eventually(t, func() error {
		var status string
		if number, status = pid(socket); number == 0 {
			return errors.New(status)
		}
		return nil
	})
	return number
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A service runs where it has a kubeconfig, with the node's name and the arguments in the file next to it.
func TestServicesHaveKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "args"), 0o755))
	for name, content := range map[string]string{"kube-proxy.conf": "", "kube-proxy.yaml": "", "node-routes.conf": "",
		"args/kube-proxy": "--v=4\n--profiling\n"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	services, err := nodeServices(dir, []string{"--hostname-override=node-1", "--v=2"})
	must(t, err)
	var lines []string
	for _, s := range services {
		lines = append(lines, strings.Join(s.argv, " "))
	}
	want := []string{
		"kubelet --hostname-override=node-1 --v=2",
		"node-routes --kubeconfig=" + dir + "/node-routes.conf --hostname-override=node-1",
		"kube-proxy --config=" + dir + "/kube-proxy.yaml --hostname-override=node-1 --v=4 --profiling",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
