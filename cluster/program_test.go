package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// counted is the component's own program, with what it found in its Env.
func counted(calls *atomic.Int32, check func(Env) error) Program {
	return func(ctx context.Context, env Env) error {
		calls.Add(1)
		if err := check(env); err != nil {
			return err
		}
		fmt.Fprintln(env.Log, "a program of the test")
		return env.Original(ctx, env)
	}
}

// TestProgramOfEachComponent: every component of a cluster in process can be a program, which has what the component
// gets.
func TestProgramOfEachComponent(t *testing.T) {
	client := map[Component]bool{ControllerManager: true, Scheduler: true, Node: true, VolumeProvisioner: true,
		MetricsServer: true}
	serves := map[Component]bool{Etcd: true, APIServer: true, APIBalancer: true, Scheduler: true, Node: true,
		MetricsServer: true}
	calls := map[Component]*atomic.Int32{}
	opts := []Option{WithAPIServers(2), WithMetricsServer(), WithFile(Scheduler, "/etc/kubernetes/mine", []byte("x"))}
	for _, component := range []Component{Etcd, APIServer, APIBalancer, ControllerManager, Scheduler, Node,
		VolumeProvisioner, MetricsServer} {
		calls[component] = &atomic.Int32{}
		opts = append(opts, WithArgs(component, "--v=2"), WithProgram(component, counted(calls[component],
			func(env Env) error {
				level, _ := env.Flag("v")
				_, absent := env.Flag("no-such-flag")
				switch info, err := os.Stat(env.Dir); {
				case err != nil || !info.IsDir():
					return fmt.Errorf("directory %s: %w", env.Dir, err)
				case env.Component != component || !strings.HasSuffix(env.Dir, env.Name):
					return fmt.Errorf("%s %s in %s", env.Component, env.Name, env.Dir)
				case (env.Node != "") != (component == Node):
					return fmt.Errorf("node %q", env.Node)
				case (env.RESTConfig != nil) != client[component] || (env.Kubeconfig != "") != client[component]:
					return fmt.Errorf("client configuration %v of %q", env.RESTConfig, env.Kubeconfig)
				case (env.Listener != nil) != serves[component]:
					return fmt.Errorf("listener %v", env.Listener)
				case env.Clock == nil || level != "2" || absent:
					return fmt.Errorf("clock %v, arguments %v", env.Clock, env.Args)
				case component == Scheduler:
					_, err := os.Stat(env.File("mine"))
					return err
				}
				return nil
			})))
	}
	c, kube := started(t, opts...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	createPod(ctx, t, kube, "first")
	phase(ctx, t, kube, "first", corev1.PodRunning)
	for component, n := range calls {
		if want := int32(len(c.Component(component).Members)); n.Load() != want || want == 0 {
			t.Errorf("%s: the program was called %d times, for %d members", component, n.Load(), want)
		}
		for _, m := range c.Component(component).Members {
			var log strings.Builder
			if err := m.Logs(ctx, false, &log); err != nil || !strings.Contains(log.String(), "a program of the test") {
				t.Errorf("log of %s: %v\n%s", m.Name(), err, log.String())
			}
		}
	}
}

// TestProgramIsTheComponent: a program has the identity of its component, is stopped, killed and started as one, and
// keeps its directory.
func TestProgramIsTheComponent(t *testing.T) {
	lives := make(chan string, 10)
	c, _ := started(t, WithNodes(0), WithProgram(Scheduler, func(ctx context.Context, env Env) error {
		client, err := kubernetes.NewForConfig(env.RESTConfig)
		if err != nil {
			return err
		}
		var user string
		err = until(ctx, func(ctx context.Context) error {
			review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, selfReview(), metav1.CreateOptions{})
			if err == nil {
				user = review.Status.UserInfo.Username
			}
			return err
		})
		if err != nil {
			return err
		}
		mark := filepath.Join(env.Dir, "lives")
		before, _ := os.ReadFile(mark)
		lives <- user + string(before)
		if err := os.WriteFile(mark, append(before, '+'), 0o600); err != nil {
			return err
		}
		server := &http.Server{Handler: http.NotFoundHandler()}
		context.AfterFunc(ctx, func() { _ = server.Close() })
		if err := server.Serve(env.Listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	scheduler := c.Component(Scheduler)
	for life, again := range []func(context.Context) error{nil, scheduler.Restart, func(ctx context.Context) error {
		return errors.Join(scheduler.Kill(ctx), scheduler.Start(ctx))
	}} {
		if again != nil {
			if err := again(ctx); err != nil {
				t.Fatal(err)
			}
		}
		want := "system:kube-scheduler" + strings.Repeat("+", life)
		if got := <-lives; got != want {
			t.Errorf("life %d: %s, want %s", life, got, want)
		}
	}
	if err := scheduler.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if state, err := scheduler.Members[0].State(ctx); err != nil || state.Running || state.Error != "" {
		t.Errorf("stopped: %+v, %v", state, err)
	}
	if err := scheduler.Pause(ctx); !errors.Is(err, ErrUnsupported) {
		t.Errorf("pause: %v", err)
	}
}

// TestProgramThatEnds: a start fails with what the program says, and names the member.
func TestProgramThatEnds(t *testing.T) {
	for want, program := range map[string]Program{
		"no room left": func(context.Context, Env) error { return errors.New("no room left") },
		"panic: a bug": func(context.Context, Env) error { panic("a bug") },
		"FailNow":      func(context.Context, Env) error { (&testing.T{}).FailNow(); return nil },
		"ended":        func(context.Context, Env) error { return nil },
	} {
		_, err := Start(t.Context(), InProcess(), WithProgram(Node, program))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "node-1") {
			t.Errorf("%v; want an error that tells of node-1 and %q", err, want)
		}
	}
}

// TestProgramsThatCanNotBe: the error names the component, and says why it can't be meant there.
func TestProgramsThatCanNotBe(t *testing.T) {
	none := func(component Component) Option {
		return WithProgram(component, func(context.Context, Env) error { return nil })
	}
	for _, test := range []struct {
		want string
		opts []Option
	}{
		{`no component "x"`, []Option{none("x")}},
		{"program of etcd: it is nil", []Option{WithProgram(Etcd, nil)}},
		{"program of kube-scheduler: it is left out", []Option{InProcess(), Without(Scheduler), none(Scheduler)}},
		{"program of kube-scheduler: it has no image", []Option{WithImage(Scheduler, "mine:dev"), none(Scheduler)}},
		{"program of kube-scheduler: a detached cluster outlives it", []Option{Detached(), none(Scheduler)}},
		{"program of etcd: 3 members", []Option{WithEtcdMembers(3), none(Etcd)}},
		{"program of etcd: the store is memory", []Option{InProcess(), WithStore(Memory), none(Etcd)}},
		{"program of kube-apiserver: IP family dual", []Option{WithIPFamily(DualStack), none(APIServer)}},
		{"program of kube-proxy: a cluster in process has none", []Option{InProcess(), none(KubeProxy)}},
		{"program of kube-proxy: in a cluster of containers it sets up the network", []Option{none(KubeProxy)}},
		{"program of kube-proxy: the nodes are hollow", []Option{none(Node), none(KubeProxy)}},
		{"program of network-policy: in a cluster of containers", []Option{none(NetworkPolicy)}},
		{"program of node-routes: in a cluster of containers", []Option{none(Routes)}},
		{"program of node-routes: the API server is a program", []Option{none(APIServer), none(Routes)}},
		{"program of cloud-provider: in a cluster of containers", []Option{none(CloudProvider)}},
		{"program of coredns: in a cluster of containers it runs in pods", []Option{none(DNS)}},
		{"program of volume-provisioner: in a cluster of containers", []Option{none(VolumeProvisioner)}},
		{"program of metrics-server: it is added by", []Option{none(MetricsServer)}},
		{"published ports: the nodes are hollow", []Option{none(Node), WithPublishedPort(8080, 30080)}},
	} {
		if _, err := Start(t.Context(), test.opts...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v; want an error that tells %q", err, test.want)
		}
	}
}

func selfReview() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} }
