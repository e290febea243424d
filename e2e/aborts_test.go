package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"quintet.dev/quintet/cluster"
)

var (
	aborts = flag.Int("aborts", 20, "how many starts in process are aborted; a quarter as many in containers, and a "+
		"twentieth of programs beside containers")
	abortSeed = flag.Uint64("abort-seed", 1, "decides when starts are aborted")
)

// wholeStart is about how long a start in containers takes.
const wholeStart = 8 * time.Second

// progressEvery is how many aborts there are between two lines of progress.
const progressEvery = 50

// aborter starts clusters and kills the process that does so.
type aborter struct {
	t      *testing.T
	name   string
	random *rand.Rand
	env    []string
	state  string // the folder in which quintet keeps its own
	temp   string // for temporary files
	whole  time.Duration

	networks []string // that the engine keeps
}

func newAborter(t *testing.T, name string) *aborter {
	t.Helper()
	a := &aborter{t: t, name: fmt.Sprintf("aborted-%s-%d", name, os.Getpid()), state: t.TempDir(), temp: t.TempDir(),
		random: rand.New(rand.NewPCG(*abortSeed, 0))}
	a.env = append(os.Environ(), "XDG_STATE_HOME="+a.state, "TMPDIR="+a.temp, "QUINTET_E2E_CRASH="+a.name)
	t.Cleanup(func() { a.remove() }) // what a test that failed half-way has not
	return a
}

// miscounted is what the removal of a cluster says of a network without containers that the engine keeps: before 28.1
// it may lose count of those that come or go at the same time.
const miscounted = "the engine has lost count of its containers"

// remove takes away what Docker has of the cluster, and the claim of a start.
func (a *aborter) remove() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cluster.Remove(ctx, a.name); err != nil && !strings.Contains(err.Error(), miscounted) {
		a.t.Error(err)
	}
}

// command runs in a process group of its own, so that what it leaves of processes is found.
func (a *aborter) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.SysProcAttr = a.env, &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// abort kills a start at a random moment, which may be after it.
func (a *aborter) abort(program string, args ...string) {
	a.t.Helper()
	cmd := a.command(program, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	after := time.Duration(a.random.Int64N(int64(a.whole)))
	select {
	case err := <-exited: // a cluster of containers was up before
		if err != nil {
			a.t.Fatalf("seed %d: the start failed by itself, within %v: %v\n%s", *abortSeed, after, err, out.String())
		}
		return
	case <-time.After(after):
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		a.t.Fatal(err)
	}
	<-exited
	if err := ended(cmd.Process.Pid); err != nil {
		a.t.Errorf("seed %d: killed after %v, it leaves processes: %v", *abortSeed, after, err)
	}
}

// ended waits a little for the end of a process group: Go's own probe of the kernel (pidfd) is a process that ends by
// itself, but later on a busy machine. Processes that have ended, and that the machine's init has yet to collect, are
// none.
func ended(group int) error {
	const patience = 5 * time.Second
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Kill(-group, 0)
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		if time.Since(begin) > patience {
			return running(group)
		}
	}
}

// running returns an error that names the processes of a group that have not ended.
func running(group int) error {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	var left []string
	for _, stat := range stats {
		content, _ := os.ReadFile(stat) // it may be gone
		_, fields, _ := strings.Cut(string(content), ") ")
		var state string
		var parent, of int
		if _, err := fmt.Sscan(fields, &state, &parent, &of); err == nil && of == group && state != "Z" {
			left = append(left, string(content))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("of process group %d: %v", group, left)
	}
	return nil
}

// nothing expects no file of the cluster.
func (a *aborter) nothing() {
	a.t.Helper()
	for _, dir := range []string{filepath.Join(a.state, "quintet"), a.temp} {
		left, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
			a.t.Errorf("seed %d: left in %s: %v, %v", *abortSeed, dir, left, err)
		}
	}
}

func quintet(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "quintet")
	build := exec.Command("go", "build", "-o", program, "./cmd/quintet")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// TestAborted kills starts at random moments.
func TestAborted(t *testing.T) {
	program := quintet(t)
	t.Run("InProcess", func(t *testing.T) { abortInProcess(t, program) })
	t.Run("Containers", func(t *testing.T) { abortContainers(t, program) })
	t.Run("Beside", abortBeside)
}

// abortInProcess: whenever a cluster in process is killed, the next one of any name leaves nothing of it.
func abortInProcess(t *testing.T, program string) {
	a := newAborter(t, "inprocess")
	began := time.Now()
	a.endInProcess(program)
	a.whole = time.Since(began)
	for range *aborts {
		a.abort(program, "up", "--in-process", "--name", a.name)
	}
	a.endInProcess(program)
	a.nothing()
	t.Logf("%d aborts within %v", *aborts, a.whole)
}

// endInProcess starts a cluster and ends it as users do.
func (a *aborter) endInProcess(program string) {
	a.t.Helper()
	cmd := a.command(program, "up", "--in-process", "--name", a.name+"-whole")
	up := &notifier{to: &strings.Builder{}, text: "is this process", seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = up, up
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case <-up.seen:
	case err := <-exited:
		a.t.Fatalf("the cluster did not start: %v\n%s", err, up.to)
	case <-time.After(3 * time.Minute):
		_ = cmd.Process.Kill()
		a.t.Fatal("the cluster did not start in time")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		a.t.Fatal(err)
	}
	if err := <-exited; err != nil {
		a.t.Errorf("the cluster did not end well: %v\n%s", err, up.to)
	}
}

// abortContainers: whenever `quintet up` is killed, the next one works, and `quintet down` leaves nothing.
func abortContainers(t *testing.T, program string) {
	a := newAborter(t, "containers")
	began := time.Now()
	a.run(program, "up", "--name", a.name)
	a.whole = min(time.Since(began), wholeStart) // it may have built images first
	a.run(program, "down", "--name", a.name)
	var volumes []string
	for i := range max(*aborts/4, 1) {
		if i > 0 && i%progressEvery == 0 {
			t.Logf("%d aborts so far", i)
		}
		a.abort(program, "up", "--name", a.name)
		volumes = append(volumes, a.volumes()...)
		// A start removes by itself what aborted ones left; one that was killed after its end has to be removed.
		if i%2 == 0 || a.detached() {
			a.down(program)
			a.nothingInDocker(volumes)
		}
	}
	a.down(program)
	a.nothingInDocker(volumes)
	a.nothing()
	t.Logf("%d aborts within %v", max(*aborts/4, 1), a.whole)
}

func (a *aborter) run(program string, args ...string) {
	a.t.Helper()
	if out, err := a.command(program, args...).CombinedOutput(); err != nil {
		a.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// down removes the cluster, of which there may be nothing.
func (a *aborter) down(program string) {
	a.t.Helper()
	out, err := a.command(program, "down", "--name", a.name).CombinedOutput()
	if err != nil && !bytes.Contains(out, fmt.Appendf(nil, "no cluster %q runs", a.name)) &&
		!bytes.Contains(out, []byte(miscounted)) {
		a.t.Errorf("down: %v\n%s", err, out)
	}
}

// detached tells whether a start has come to its end: it holds no claim any more.
func (a *aborter) detached() bool {
	a.t.Helper()
	members := docker(a.t, "ps", "--all", "--quiet", "--filter", "label=io.quintet.cluster="+a.name)
	claims := docker(a.t, "ps", "--all", "--quiet", "--filter", "label=io.quintet.claim="+a.name)
	return members != "" && claims == ""
}

// volumes are those of the cluster's containers, and folders that they mount. One list has all: a container may be gone
// before it could be inspected.
func (a *aborter) volumes() []string {
	a.t.Helper()
	mounts := docker(a.t, "ps", "--all", "--no-trunc", "--filter", "label=io.quintet.cluster="+a.name, "--format",
		"{{.Mounts}}")
	return strings.FieldsFunc(mounts, func(r rune) bool { return r == ',' || r == '\n' })
}

// nothingInDocker expects no container, network and volume of the cluster, but for networks without containers that the
// engine does not remove.
func (a *aborter) nothingInDocker(volumes []string) {
	a.t.Helper()
	label := "label=io.quintet.cluster=" + a.name
	left := docker(a.t, "ps", "--all", "--quiet", "--filter", label) + docker(a.t, "volume", "ls", "--quiet", "--filter",
		label)
	for _, network := range strings.Fields(docker(a.t, "network", "ls", "--quiet", "--filter", label)) {
		if !a.kept(network) {
			left += network
		}
	}
	for _, volume := range strings.Fields(docker(a.t, "volume", "ls", "--quiet")) {
		if slices.Contains(volumes, volume) {
			left += volume
		}
	}
	if left != "" {
		a.t.Errorf("seed %d: left in Docker: %s", *abortSeed, left)
	}
}

// kept tells whether a network is one that the engine keeps: it has no container, and still can't be removed.
func (a *aborter) kept(network string) bool {
	a.t.Helper()
	if strings.TrimSpace(docker(a.t, "network", "inspect", "--format", "{{len .Containers}}", network)) != "0" {
		return false
	}
	out, err := exec.Command("docker", "network", "rm", network).CombinedOutput()
	kept := err != nil && bytes.Contains(out, []byte("active endpoints"))
	if kept && !slices.Contains(a.networks, network) {
		a.networks = append(a.networks, network)
		a.t.Logf("seed %d: the engine keeps a network without containers (%d so far): %s", *abortSeed, len(a.networks), out)
	}
	return kept
}

// TestHelperAbort is not a test of its own: TestAborted runs it as a process and kills that.
func TestHelperAbort(t *testing.T) {
	name := os.Getenv("QUINTET_E2E_CRASH")
	if name == "" || !strings.HasPrefix(name, "aborted-beside") {
		t.Skip("run by TestAborted")
	}
	if _, err := cluster.Start(t.Context(), cluster.WithName(name), cluster.WithNodes(1), cluster.WithProgram(
		cluster.Scheduler, func(ctx context.Context, env cluster.Env) error { return env.Original(ctx, env) })); err != nil {
		t.Fatal(err)
	}
}

// abortBeside: a test process that dies with a program beside containers leaves nothing that the next start, and
// the removal of the cluster, do not remove.
func abortBeside(t *testing.T) {
	a := newAborter(t, "beside")
	a.whole = wholeStart
	var volumes []string
	for range max(*aborts/20, 1) {
		a.abort(os.Args[0], "-test.run=^TestHelperAbort$", "-test.timeout=5m")
		volumes = append(volumes, a.volumes()...)
	}
	a.remove()
	a.nothingInDocker(volumes)
}
