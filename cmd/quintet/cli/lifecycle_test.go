package cli

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"quintet.dev/quintet/cluster"
)

// TestConfigAndContext: a file says what to start, flags come on top, and the context is there until the cluster is
// down.
func TestConfigAndContext(t *testing.T) {
	dir, kubeconfig := t.TempDir(), filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", kubeconfig)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	content := "apiVersion: quintet.dev/v1\nkind: Cluster\nname: filed\ninProcess: true\nnodes: 3\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(manifest, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	ended, log := make(chan int, 1), &safeBuffer{}
	go func() {
		a := &app{out: log, err: log, in: strings.NewReader(""), state: state{dir}}
		ended <- a.execute(ctx, []string{"up", "--config", file, "--nodes", "1", "--manifest", manifest,
			"--kubeconfig-merge"})
	}()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "is this process"); {
		if time.Now().After(deadline) || len(ended) > 0 {
			t.Fatalf("did not come up:\n%s", log)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for what, want := range map[string]string{"nodes": "node/node-1\n", "configmaps/m": "configmap/m\n"} {
		if code, out, err := run(t.Context(), dir, "--name", "filed", "kubectl", "get", what, "-o", "name"); code != 0 ||
			out.String() != want {
			t.Errorf("kubectl get %s: %d, %s, %s", what, code, out, err)
		}
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil || config.CurrentContext != "quintet-filed" {
		t.Errorf("%+v, %v", config, err)
	}
	if code, _, err := run(t.Context(), dir, "--name", "filed", "kubeconfig", "--merge"); code != 0 ||
		!strings.Contains(err.String(), "quintet-filed") {
		t.Errorf("merged again: %d, %s", code, err)
	}
	interrupt()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d\n%s", code, log)
	}
	if _, err := os.Stat(kubeconfig); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig that was made is still there: %v", err)
	}
}

// TestMergedLater: what `kubeconfig --merge` added goes with the cluster's state, also after a crash.
func TestMergedLater(t *testing.T) {
	s, into := state{t.TempDir()}, filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", into)
	content := "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: " +
		"u}}]\n" +
		"clusters: [{name: x, cluster: {server: 'https://x'}}]\nusers: [{name: u, user: {token: t}}]\n"
	if err := s.save(entry{Name: "x"}, []byte(content)); err != nil {
		t.Fatal(err)
	}
	a := &app{out: &safeBuffer{}, err: &safeBuffer{}, state: s}
	if got, err := a.mergeKubeconfig(t.Context(), chosen{name: "x"}, s.kubeconfig("x")); err != nil || got != into {
		t.Fatalf("%q, %v", got, err)
	}
	config, err := clientcmd.LoadFromFile(into)
	if err != nil || config.AuthInfos["quintet-x"].Token != "t" {
		t.Errorf("%+v, %v", config, err)
	}
	if err := s.remove("x"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(into); !os.IsNotExist(err) {
		t.Errorf("the file that was made is still there: %v", err)
	}
}

// TestVerbsOfMembers: names of members and components are understood, each member once, and all errors are told.
func TestVerbsOfMembers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.InProcess(), cluster.WithName("verbs"), cluster.WithNodes(2))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop(context.Background()) }()
	said := &safeBuffer{}
	a := &app{err: said}
	verbs := map[string]verb{}
	for _, v := range lifecycle() {
		verbs[v.name] = v
	}
	runs := func(member string) bool {
		state, err := c.Member(member).State(ctx)
		return err == nil && state.Running
	}
	if err := a.carryOut(ctx, c, verbs["stop"], []string{"node", "node-1", "scheduler-0"}); err != nil {
		t.Fatal(err)
	}
	if want := "node-1 is stopped.\nnode-2 is stopped.\nscheduler-0 is stopped.\n"; said.String() != want ||
		runs("node-2") {
		t.Errorf("said %q", said)
	}
	if err := a.carryOut(ctx, c, verbs["start"], []string{"node-2"}); err != nil || !runs("node-2") || runs("node-1") {
		t.Errorf("start: %v", err)
	}
	if err := a.carryOut(ctx, c, verbs["kill"], []string{"node-2"}); err != nil || runs("node-2") {
		t.Errorf("kill: %v", err)
	}
	if err := a.carryOut(ctx, c, verbs["restart"], []string{"kube-scheduler"}); err != nil || !runs("scheduler-0") {
		t.Errorf("restart: %v", err)
	}
	for _, name := range []string{"pause", "resume"} {
		if err := a.carryOut(ctx, c, verbs[name], []string{"node"}); err == nil ||
			strings.Count(err.Error(), "not supported") != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
	names, err := nodeNames(ctx, c, []string{"1", "node-2"})
	if err != nil || !slices.Equal(names, []string{"node-1", "node-2"}) {
		t.Errorf("the names of nodes: %v, %v", names, err)
	}
	for want, given := range map[string][]string{"has no node node-7": {"1", "7"}, "named twice": {"2", "node-2"},
		"has no node master": {"master"}} {
		if _, err := nodeNames(ctx, c, given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", given, err)
		}
	}
	if err := a.carryOut(ctx, c, verbs["start"], []string{"node-1", "kubelet"}); err == nil ||
		!strings.Contains(err.Error(), `neither a member nor a component "kubelet"`) || runs("node-1") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestNodeFlags(t *testing.T) {
	got, err := nodeFlags{role: "r", labels: []string{"a=b", "c="}, taints: []string{"k=v:NoSchedule", "only:NoExecute"},
		args: []string{"--x"}, mounts: []string{"/a:/b", "/c:/d:ro"}, ports: []string{"1:2", "3:4/udp"}}.options()
	want := cluster.NodeOptions{Role: "r", Labels: map[string]string{"a": "b", "c": ""}, Args: []string{"--x"},
		Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}, {Key: "only", Effect: "NoExecute"}},
		Mounts: []cluster.Mount{{HostPath: "/a", ContainerPath: "/b"}, {HostPath: "/c", ContainerPath: "/d", ReadOnly: true}},
		Ports:  []cluster.PortMapping{{HostPort: 1, ContainerPort: 2}, {HostPort: 3, ContainerPort: 4, Protocol: "UDP"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLifecycleMistakesAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: quintet.dev/v1\nkind: Cluster\nnods: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ args, want string }{
		{"up --config " + file, file + ":3: nods: there is no such field"},
		{"up --config /no/such/file", "/no/such/file"},
		{"up --in-process --retain", "retain on failure"},
		{"up --in-process --wait", "wait for manifests: there are none"},
		{"up --schedulers 0", "0 schedulers"},
		{"up --manifest /no/such", "/no/such"},
		{"load", "--archive FILE"},
		{"node add --label a", "--label \"a\""},
		{"node add --taint a", "--taint \"a\""},
		{"node add --mount a", "--mount \"a\""},
		{"node add --port a:b", "--port \"a:b\""},
		{"--name absent pause node-1", `no cluster "absent" runs`},
		{"--name absent export logs x", `no cluster "absent" runs`},
	} {
		code, _, err := run(t.Context(), t.TempDir(), strings.Fields(test.args)...)
		if code != 1 || !strings.Contains(err.String(), test.want) {
			t.Errorf("%s: code %d, %q; want it to name %q", test.args, code, err, test.want)
		}
	}
}
