package cluster

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/cluster/internal/inprocess"
)

// temporary has clusters put their files into a directory of the test, which it lists.
func temporary(t *testing.T) func() []string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return func() []string {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
}

// TestNothingIsLeft: a start that fails, at whichever step, leaves no goroutine, file or listener.
func TestNothingIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		opts []Option
		want []string
	}{
		"a flag of the API server": {[]Option{WithArgs(APIServer, "--no-such-flag")},
			[]string{"apiserver-0", "no-such-flag"}},
		"a flag of the controllers": {[]Option{WithArgs(ControllerManager, "--no-such-flag")},
			[]string{"controller-manager-0", "no-such-flag"}},
		"a value that the kubelet can't read": {[]Option{WithArgs(Node, "--max-pods=many")},
			[]string{"node-1", "max-pods"}},
		"a flag of etcd": {[]Option{WithStore(EmbeddedEtcd), WithArgs(Etcd, "--no-such-flag")},
			[]string{"etcd-0", "no-such-flag"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), retryingEvents)
			left := temporary(t)
			var steps []string
			opts := append([]Option{InProcess(), WithName("rollback"), WithProgress(func(e Event) {
				if e.Err != nil {
					steps = append(steps, e.Step)
				}
			})}, c.opts...)
			cluster, err := Start(t.Context(), opts...)
			if cluster != nil || err == nil {
				t.Fatalf("started: %v, %v", cluster, err)
			}
			for _, want := range append(c.want, "start cluster rollback: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not tell %q", err, want)
				}
			}
			if len(steps) != 1 {
				t.Errorf("steps that failed: %v", steps)
			}
			if names := left(); len(names) > 0 {
				t.Errorf("left %v", names)
			}
		})
	}
}

// TestCancelledStart: a start whose context ends tells so, and is taken back.
func TestCancelledStart(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), retryingEvents)
	left := temporary(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Start(ctx, InProcess(), WithProgress(func(e Event) {
		if e.Step == "wait for the API server" && !e.Done {
			cancel()
		}
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if names := left(); len(names) > 0 {
		t.Errorf("left %v", names)
	}
}

// retryingEvents is client-go's recorder of events, which waits out a Retry-After whatever becomes of its owner.
var retryingEvents = goleak.IgnoreAnyFunction("k8s.io/client-go/tools/record.recordEvent")

// TestEndsWhole: a cluster that ran leaves no goroutine, file or listener; a second Stop is nothing.
func TestEndsWhole(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), retryingEvents)
	left := temporary(t)
	c, err := Start(t.Context(), InProcess(), WithName("whole"), WithNodes(2), WithAPIServers(2))
	if err != nil {
		t.Fatal(err)
	}
	if names := left(); len(names) != 1 || !strings.HasPrefix(names[0], "quintet-whole-") {
		t.Errorf("files of the cluster: %v", names)
	}
	var addresses []string
	for _, text := range []string{c.RESTConfig().Host, c.SchedulerURL()} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, u.Host)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("%s is still taken: %v", address, err)
			continue
		}
		_ = l.Close()
	}
	if names := left(); len(names) > 0 {
		t.Errorf("left %v", names)
	}
}

// TestKubeconfig: it is an administrator's, stands for itself, and entries of several clusters can be in one file.
func TestKubeconfig(t *testing.T) {
	c, _ := started(t, WithName("mine"), WithNodes(0), Without(Scheduler), Without(ControllerManager))
	config, err := clientcmd.Load(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if config.CurrentContext != "mine" || config.Contexts["mine"] == nil ||
		config.Contexts["mine"].AuthInfo != "mine-kubernetes-admin" {
		t.Errorf("contexts %v, current %s", config.Contexts, config.CurrentContext)
	}
	if cluster := config.Clusters["mine"]; cluster == nil || cluster.Server != c.RESTConfig().Host ||
		cluster.InsecureSkipTLSVerify || len(cluster.CertificateAuthorityData) == 0 || cluster.CertificateAuthority != "" {
		t.Errorf("clusters %+v", config.Clusters)
	}
	rest, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(rest).CoreV1().Secrets("kube-system").List(t.Context(),
		metav1.ListOptions{}); err != nil {
		t.Errorf("an administrator can't list secrets: %v", err)
	}
	given := c.Kubeconfig()
	clear(given)
	if bytes.Equal(given, c.Kubeconfig()) {
		t.Error("what callers do to the kubeconfig reaches the cluster")
	}
	mine := c.RESTConfig()
	mine.Host = "elsewhere"
	if c.RESTConfig().Host == "elsewhere" || c.RESTConfig().QPS != -1 {
		t.Errorf("what callers do to the configuration reaches the cluster: %+v", c.RESTConfig())
	}
	if c.Name() != "mine" || c.SchedulerURL() != "" {
		t.Errorf("name %s, scheduler at %q", c.Name(), c.SchedulerURL())
	}
}

// TestProgramsNameTheirFlags: each program refuses a flag that it doesn't know, and closes its listener.
func TestProgramsNameTheirFlags(t *testing.T) {
	store := newConfig("flags").newMemoryStore()
	defer store.Close()
	h := &host{originals: programs(store, realTime(), nil), clocks: realTime(), shifts: &shifts{}}
	all := h.processes()
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"api-balancer", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet",
		"metrics-server", "volume-provisioner"}
	if !slices.Equal(names, want) {
		t.Errorf("programs %v, want %v", names, want)
	}
	for name, run := range all {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		err = run(t.Context(), inprocess.Process{
			Member: backend.Member{Args: []string{"--no-such-flag=1"}}, Listener: listener, Log: &log})
		if err == nil || err.Error() != "unknown flag: --no-such-flag" {
			t.Errorf("%s: %v", name, err)
		}
		if err := listener.Close(); err == nil {
			t.Errorf("%s left its listener open", name)
		}
	}
}
