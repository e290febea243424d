package cluster

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// example is the one of docs/config.md.
func example(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), "```yaml\n")
	text, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("docs/config.md has no example")
	}
	return text
}

func written(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestExample: what the document shows can be loaded, and means what it says. Lines that are comments are fields, too.
func TestExample(t *testing.T) {
	text := example(t)
	file := written(t, text)
	loaded, err := LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	got := configured(t, loaded.Option())
	want := configured(t, WithName("demo"), WithIPFamily(IPv4), WithAPIServers(1), WithEtcdMembers(1),
		WithNode(NodeOptions{Role: "infra", Labels: map[string]string{"topology.kubernetes.io/zone": "a"},
			Taints: []corev1.Taint{{Key: "dedicated", Value: "infra", Effect: corev1.TaintEffectNoSchedule}},
			Args:   []string{"--max-pods=20"}}),
		WithNode(NodeOptions{
			Mounts: []Mount{{HostPath: filepath.Dir(file), ContainerPath: "/data", ReadOnly: true}},
			Ports: []PortMapping{{ContainerPort: 30053, HostPort: 30053, Protocol: corev1.ProtocolUDP,
				ListenAddress: "127.0.0.1"}}}),
		WithArgs(APIServer, "--audit-policy-file=/etc/kubernetes/audit.yaml", "--audit-log-path=-"),
		WithFile(APIServer, "/etc/kubernetes/audit.yaml",
			[]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")),
		WithImage(Scheduler, "quintet/kube-scheduler:dev"), WithArgs(Scheduler, "--v=2"), With(MetricsServer),
		Without(NetworkPolicy), WithLoadedImages("quintet/testimage:dev"), WithPublishedPort(8080, 30080),
	)
	if got.faults == nil || got.faults.Seed != 7 || got.faults.Rules[0].Fault.Status != 409 {
		t.Errorf("faults %+v", got.faults)
	}
	got.faults, got.progress, want.progress = nil, nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	fields := reflect.TypeFor[clusterSpec]()
	for i := range fields.NumField() {
		name := fields.Field(i).Tag.Get("json")
		if !strings.Contains("\n"+strings.ReplaceAll(text, "# ", ""), "\n"+name+":") {
			t.Errorf("docs/config.md does not tell of %s", name)
		}
	}
}

// TestConfigInProcess: a cluster comes up from content, and options that follow come on top.
func TestConfigInProcess(t *testing.T) {
	c, _ := started(t, WithConfig([]byte("apiVersion: quintet.dev/v1\nkind: Cluster\nname: by-file\nnodes: 2\n")),
		WithNodes(1))
	if c.Name() != "by-file" || len(c.Component(Node).Members) != 1 {
		t.Errorf("%s has %v", c.Name(), c.Component(Node).Members)
	}
}

// TestConfigOptions: fields that the example leaves out mean what their options do.
func TestConfigOptions(t *testing.T) {
	const head = "apiVersion: quintet.dev/v1\nkind: Cluster\n"
	for content, want := range map[string]Option{
		"shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s": WithGracefulNodeShutdown(30*time.Second,
			10*time.Second),
		"registryMirrors: [https://mirror.example]":            WithRegistryMirror("https://mirror.example"),
		"insecureRegistries: ['registry.example:5000']":        WithInsecureRegistry("registry.example:5000"),
		"registryUser: {name: jane, passwordFile: secret.txt}": WithRegistryUser("jane", "pass"),
	} {
		file := written(t, head+content+"\n")
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), "secret.txt"), []byte("pass\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := LoadConfig(file)
		if err != nil {
			t.Errorf("%s: %v", content, err)
			continue
		}
		got, want := configured(t, loaded.Option()), configured(t, want)
		got.progress, want.progress = nil, nil
		got.name = want.name
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v\nwant %+v", content, got, want)
		}
	}
	file := written(t, head+"components: {kube-scheduler: {program: cluster.yaml}}\n")
	loaded, err := LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if configured(t, loaded.Option()).programs[Scheduler] == nil {
		t.Error("the scheduler is no program")
	}
}

// TestConfigMistakes: each names the line and the field.
func TestConfigMistakes(t *testing.T) {
	const head = "apiVersion: quintet.dev/v1\nkind: Cluster\n"
	for content, want := range map[string]string{
		"kind: Cluster\n":                              ":1: apiVersion: \"\": this release reads quintet.dev/v1",
		"apiVersion: quintet.dev/v1\nkind: Node":       ":2: kind: \"Node\": want Cluster",
		head + "nodse: 3":                              ":3: nodse: there is no such field; there are apiVersion",
		head + "nodes: -1":                             ":3: nodes: -1 nodes: at least 0",
		head + "nodes: many":                           ":3: nodes: want a whole number, got a string",
		head + "nodes: {a: b}":                         ":3: nodes: want the number of nodes, or a list",
		head + "nodes:\n- role: a\n- labels: {a b: c}": ":5: nodes[1]: node-2: labels: Invalid value",
		head + "nodes:\n- mounts: [{hostPath: /a}]":    ":4: nodes[0]: node-1: mounts[0].containerPath: Invalid value",
		head + "nodeResources: {memory: much}":         ":3: nodeResources.memory: want a number of bytes",
		head + "nodeResources:\n  disk: 1Mi":           ":4: nodeResources.disk: node disk of 1048576 bytes",
		head + "name: A_B":                             ":3: name: cluster name \"A_B\"",
		head + "with: [coredns]":                       ":3: with[0]: component \"coredns\" can't be added",
		head + "without:\n- coredns\n- kubelet":        ":5: without[1]: no component \"kubelet\"",
		head + "components:\n  scheduler: {args: []}":  ":4: components.scheduler: no component \"scheduler\"",
		head +
			"components:\n  etcd:\n    files:\n    - {path: /etc/x, content: ''}": ":6: components.etcd.files[0]: file " +
			"\"/etc/x\"",
		head +
			"components:\n  etcd:\n    files:\n    - {path: /etc/kubernetes/x}": ":6: components.etcd.files[0]: give either",
		head +
			"components:\n  etcd:\n    files:\n    - {path: /etc/kubernetes/x, source: no}": ":6: components.etcd.files[0]: " +
			"open ",
		head +
			"publish:\n- {hostPort: 0, nodePort: 1}": ":4: publish[0]: published port 0:1",
		head +
			"manifests: [none.yaml]": ":3: manifests[0]: manifests: stat ",
		head + "crds: [none.yaml]": ":3: crds[0]: CRDs: stat ",
		head +
			"imageArchives: [none.tar]": ":3: imageArchives[0]: image archive: stat ",
		head + "shutdownGracePeriod: 30":                       ":3: shutdownGracePeriod: want a string, got the number 30",
		head + "shutdownGracePeriod: 1ms":                      ":3: shutdownGracePeriod: graceful node shutdown in 1ms",
		head + "registryMirrors: [a, b]":                       ":3: registryMirrors[0]: registry mirror \"a\"",
		head + "insecureRegistries: [a, '/']":                  ":3: insecureRegistries[1]: insecure registry \"/\"",
		head + "registryUser: {name: a}":                       ":3: registryUser: give passwordFile",
		head + "registryUser: {name: a, password: b}":          ":3: registryUser.password: there is no such field",
		head + "registryUser: {name: a, passwordFile: none}":   ":3: registryUser.passwordFile: open ",
		head + "components: {kube-scheduler: {program: none}}": ":3: components.kube-scheduler.program: stat ",
		head + "components: {kube-scheduler: {program: '.'}}":  ":3: components.kube-scheduler.program: ",
		head + "faults: none.yaml":                             ":3: faults: open ",
		head + "faults: {seeds: 3}":                            ":3: faults.seeds: there is no such field",
		head + "faults:\n  rules:\n  - fault: {status: 1}":     ":5: faults.rules[0].fault.status: 1 is no",
		head +
			"kubeconfig: {file: x}": ":3: kubeconfig.file: nothing is merged without merge",
		head +
			"waitForManifests: true": ":3: waitForManifests: wait for manifests: there are none",
		head +
			"inProcess: true\nname: a\netcdMembers: 3": ":5: etcdMembers: 3 etcd members: a cluster in process",
		head +
			"nodes: 0\npublish: [{hostPort: 1, nodePort: 2}]": ":4: publish[0]: published ports: the cluster has no node",
	} {
		file := written(t, content)
		_, err := LoadConfig(file)
		if err == nil || !strings.HasPrefix(err.Error(), file+want) {
			t.Errorf("%q:\n%v\nwant %s", content, err, want)
		}
	}
	for content, want := range map[string]string{
		"faults:\n  rules:\n  - fault: {status: 1}": ":5: faults.rules[0].fault.status: 1 is no",
		"faults: plan.yaml":                         "/plan.yaml:2: rules[0].fault.status: 1 is no",
	} {
		file := written(t, head+content)
		plan := filepath.Join(filepath.Dir(file), "plan.yaml")
		if err := os.WriteFile(plan, []byte("rules:\n- fault: {status: 1}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadConfig(file); err == nil || strings.Count(err.Error(), "\n") > 0 ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: want one line with %q:\n%v", content, want, err)
		}
	}
	_, err := LoadConfig(written(t, head+"nodes: -1\nname: A_B\n"))
	if err == nil || !slices.Equal([]bool{strings.Contains(err.Error(), "at least 0"), strings.Contains(err.Error(),
		"A_B")},
		[]bool{true, true}) {
		t.Errorf("not all mistakes are told: %v", err)
	}
	if _, err := LoadConfig("/no/such/file"); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("%v", err)
	}
}
