package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"quintet.dev/quintet/cluster/owner"
)

// safeBuffer is written to by a command while the test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// run runs a command line on a state directory.
func run(ctx context.Context, dir string, args ...string) (code int, out, err *safeBuffer) {
	out, err = &safeBuffer{}, &safeBuffer{}
	a := &app{out: out, err: err, in: strings.NewReader(""), state: state{dir}}
	return a.execute(ctx, args), out, err
}

func TestInProcessClusterFromUpToDown(t *testing.T) {
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	log := &safeBuffer{}
	go func() {
		a := &app{out: log, err: log, in: strings.NewReader(""), state: state{dir}}
		ended <- a.execute(ctx, []string{"up", "--in-process", "--name", "t", "--nodes", "2"})
	}()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "is this process"); {
		if time.Now().After(deadline) || len(ended) > 0 {
			t.Fatalf("did not come up:\n%s", log)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if code, _, err := run(t.Context(), dir, "up", "--in-process", "--name", "t"); code != 1 ||
		!strings.Contains(err.String(), "another process") {
		t.Errorf("a second of that name: %d, %s", code, err)
	}
	if code, out, err := run(t.Context(), dir, "--name", "t", "kubectl", "get", "nodes", "-o", "name"); code != 0 ||
		out.String() != "node/node-1\nnode/node-2\n" {
		t.Errorf("kubectl: %d, %s, %s", code, out, err)
	}
	code, out, _ := run(t.Context(), dir, "status", "--name", "t", "--output", "json")
	var statuses []clusterStatus
	if err := json.Unmarshal([]byte(out.String()), &statuses); code != 0 || err != nil || len(statuses) != 1 ||
		!statuses[0].InProcess {
		t.Errorf("status: %d, %s, %v", code, out, err)
	}
	if code, _, err := run(t.Context(), dir, "logs", "--name", "t", "node-1"); code != 1 ||
		!strings.Contains(err.String(), "containers") {
		t.Errorf("logs: %d, %s", code, err)
	}
	if code, _, err := run(t.Context(), dir, "explain", "--name", "t", "pod", "absent"); code != 1 ||
		!strings.Contains(err.String(), "pod default/absent does not wait for a node") {
		t.Errorf("explain: %d, %s", code, err)
	}
	interrupt()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d\n%s", code, log)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStateForgetsDeadProcesses(t *testing.T) {
	s := state{t.TempDir()}
	self, err := owner.Self()
	if err != nil {
		t.Fatal(err)
	}
	gone := self[:strings.LastIndex(self, "/")] + "/1" // this number, but started at the first tick
	for name, id := range map[string]string{"lives": self, "died": gone} {
		if err := s.save(entry{Name: name, InProcess: true, Owner: id}, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(s.dir, "half-made"), 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := s.inProcess()
	if _, err := os.Stat(filepath.Join(s.dir, "half-made")); !os.IsNotExist(err) {
		t.Errorf("the folder of a start that was killed is still there: %v", err)
	}
	if err != nil || len(entries) != 1 || entries[0].Name != "lives" {
		t.Errorf("%+v, %v", entries, err)
	}
	if _, err := os.Stat(s.kubeconfig("died")); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig of a dead cluster is still there: %v", err)
	}
}

// TestOneOfManyInProcess: of concurrent in-process starts of one name, one continues.
func TestOneOfManyInProcess(t *testing.T) {
	s := state{t.TempDir()}
	const starters = 8
	claims := make(chan error, starters)
	for range starters {
		go func() {
			a := &app{state: s}
			claims <- a.claim(t.Context(), &entry{Name: "one", InProcess: true})
		}()
	}
	won := 0
	for range starters {
		err := <-claims
		if err == nil {
			won++
		} else if !strings.Contains(err.Error(), "quintet down --name one") {
			t.Errorf("refused with %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d starts went on", won, starters)
	}
}

// TestRedirectedLogs: what libraries log, errors too, goes where it is sent, once.
func TestRedirectedLogs(t *testing.T) {
	var log safeBuffer
	redirectLogs(&log)
	defer redirectLogs(io.Discard)
	klog.ErrorS(errors.New("broken"), "A library says so")
	if strings.Count(log.String(), "A library says so") != 1 {
		t.Errorf("logged %q", log.String())
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"up --image nonsense", "COMPONENT=REF"},
		{"up --args nonsense", "COMPONENT=ARGUMENT"},
		{"up --with kubelet", "metrics-server"},
		{"up --in-process --nodes 0 --with metrics-server", "the cluster has no node"},
		{"up --image kube-shceduler=x", "kube-shceduler"},
		{"up --name Not_Good", "Not_Good"},
		{"up --sideways", "unknown flag: --sideways; see quintet up --help"},
		{"up --node 2", "unknown flag: --node; did you mean --nodes? see quintet up --help"},
		{"up --mani x", "unknown flag: --mani; did you mean --manifest? see quintet up --help"},
		{"up -x", "unknown shorthand flag: 'x' in -x; see quintet up --help"},
		{"up --nodes", "flag needs an argument: --nodes; see quintet up --help"},
		{"up extra", `want no argument, got "extra"`},
		{"node lst", `unknown command "lst"; did you mean list? see quintet node --help`},
		{"token x", `unknown command "x"; see quintet token --help`},
		{"snapshot", "want FILE, got nothing\nUsage: quintet snapshot FILE [flags]; see quintet snapshot --help"},
		{"score", "want -- COMMAND [ARGUMENT...], got nothing\nUsage: quintet score -- COMMAND"},
		{"faults plan.yaml", `want PLAN -- COMMAND [ARGUMENT...], got "plan.yaml"`},
		{"export logs a b", `want DIR, got "a" "b"`},
		{"up --in-process --wait", "quintet up --manifest FILE"},
		{"up --faults nope.yaml", "--faults: open nope.yaml"},
		{"restore cli_test.go", "is no snapshot of quintet snapshot"},
		{"up --nodes two", `--nodes "two": want a whole number`},
		{"up --nodes 99999999999999999999", `--nodes "99999999999999999999": want a whole number that is not as large`},
		{"up --timeout 3", `--timeout "3": want a duration`},
		{"up --in-process=maybe", `--in-process "maybe": want true or false`},
		{"faults --seed -1 p -- x", `--seed "-1": want a whole number of at least 0`},
		{"kubeconfig --path -o json", "--output is the form of the kubeconfig"},
		{"status --output xml", "xml"},
		{"--name absent kubeconfig", `no cluster "absent" runs`},
		{"--name absent status", `no cluster "absent" runs`},
		{"--name absent down", `no cluster "absent" runs`},
	} {
		code, _, err := run(t.Context(), t.TempDir(), strings.Fields(test.args)...)
		if code != 1 || !strings.Contains(err.String(), test.want) {
			t.Errorf("%s: code %d, %q; want it to name %q", test.args, code, err, test.want)
		}
	}
}

func TestNameBeforeKubectlsWords(t *testing.T) {
	for _, test := range []struct{ args, name, rest string }{
		{"get pods", "", "get pods"},
		{"--name b get pods", "b", "get pods"},
		{"--name=b get pods", "b", "get pods"},
		{"expose pod x --name y", "", "expose pod x --name y"},
	} {
		a := &app{}
		if rest := strings.Join(a.takeName(strings.Fields(test.args)), " "); a.name != test.name || rest != test.rest {
			t.Errorf("%q: name %q, rest %q", test.args, a.name, rest)
		}
	}
}

func TestKubectlsWordsMayTellTheCluster(t *testing.T) {
	for args, want := range map[string]bool{
		"":                               true,
		"help get":                       true,
		"get --help":                     true,
		"get pods":                       false,
		"get pods --kubeconfig f":        true,
		"get pods --kubeconfig=f":        true,
		"--server https://x version":     true,
		"exec p -- sh --kubeconfig f":    false,
		"run p --image i -- help --help": false,
	} {
		if got := tellsCluster(strings.Fields(args)); got != want {
			t.Errorf("%q: %t", args, got)
		}
	}
}

// kubectl takes the flags of its log, and says once what is wrong with its command line.
func TestKubectlCommandLine(t *testing.T) {
	a := &app{out: &safeBuffer{}, in: strings.NewReader(""), state: state{t.TempDir()}}
	released := false
	a.release = func() { released = true }
	for _, test := range []struct {
		name string
		args []string
		code int
		err  string
	}{
		{"log level", []string{"version", "--client", "-v=1"}, 0, ""},
		{"unknown flag", []string{"get", "--nope"}, 1,
			"error: unknown flag: --nope\nSee 'kubectl get --help' for usage.\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			said := &safeBuffer{}
			a.err = said
			code := 0
			cmd := a.kubectl()
			cmd.SetContext(t.Context())
			err := a.runKubectl(cmd, "", test.args)
			if exit := exitError(0); errors.As(err, &exit) {
				code = int(exit)
			} else if err != nil {
				t.Fatal(err)
			}
			if code != test.code || said.String() != test.err {
				t.Errorf("exit code %d, said %q", code, said)
			}
			if !released {
				t.Error("an interrupt would not end it")
			}
		})
	}
}
