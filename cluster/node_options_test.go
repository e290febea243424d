package cluster

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNodesAreDescribed: labels of both kinds and taints are the Node object's, in a cluster whose nodes check what
// kubelets say of themselves.
func TestNodesAreDescribed(t *testing.T) {
	taint := corev1.Taint{Key: "only", Value: "infra", Effect: corev1.TaintEffectNoSchedule}
	_, client := started(t, WithNodes(2), WithNode(NodeOptions{
		Role: "infra", Taints: []corev1.Taint{taint}, Args: []string{"--max-pods=7"},
		Labels: map[string]string{"zone": "a", "topology.kubernetes.io/zone": "b", "node-restriction.kubernetes.io/x": "c"},
	}))
	node, err := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"zone": "a", "topology.kubernetes.io/zone": "b",
		"node-restriction.kubernetes.io/x": "c", "node-role.kubernetes.io/infra": ""} {
		if got, ok := node.Labels[key]; !ok || got != value {
			t.Errorf("label %s is %q, want %q", key, got, value)
		}
	}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t == taint }) {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	if pods := node.Status.Capacity.Pods().Value(); pods != 7 {
		t.Errorf("room for %d pods", pods)
	}
	other, err := client.CoreV1().Nodes().Get(t.Context(), "node-2", metav1.GetOptions{})
	if err != nil || other.Labels["zone"] != "" || len(other.Spec.Taints) > 0 {
		t.Errorf("node-2, of which nothing was said: %v, %v, %v", other.Labels, other.Spec.Taints, err)
	}
}

// TestFilesOfMembers: arguments name them by the path that they have in containers.
func TestFilesOfMembers(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
	_, client := started(t, WithNodes(0), WithFile(APIServer, "/etc/kubernetes/audit/policy.yaml", []byte(policy)),
		WithArgs(APIServer, "--audit-policy-file=/etc/kubernetes/audit/policy.yaml", "--audit-log-path="+log))
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(pollInterval) {
		content, err := os.ReadFile(log)
		if err == nil && strings.Contains(string(content), `"/api/v1/namespaces"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not audited: %v, %s", err, content)
		}
	}
}

func TestFilesInContainers(t *testing.T) {
	c := configured(t, WithFile(APIServer, "/etc/kubernetes/a.yaml", []byte("a")),
		WithArgs(APIServer, "--x=/etc/kubernetes/a.yaml", "--y=/etc/kubernetes/b.yaml"))
	ids, err := newIdentities(time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	members, err := (&layout{config: c, addressing: nowhere{}, ids: ids}).members()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		content, has := m.Files["a.yaml"]
		if has != (m.Component == string(APIServer)) || has && string(content) != "a" {
			t.Errorf("%s has %q", m.Name, content)
		}
		if has && (!slices.Contains(m.Args, "--x=/apiserver-0/a.yaml") ||
			!slices.Contains(m.Args, "--y=/etc/kubernetes/b.yaml")) {
			t.Errorf("arguments %v", m.Args)
		}
	}
	c = configured(t, WithFile(APIServer, "/etc/kubernetes/admin.conf", nil))
	_, err = (&layout{config: c, addressing: nowhere{}, ids: ids}).members()
	if err == nil || !strings.Contains(err.Error(), "/etc/kubernetes/admin.conf of kube-apiserver: Quintet writes") {
		t.Errorf("a file of Quintet's own: %v", err)
	}
}

func TestBadNodesAndFiles(t *testing.T) {
	node := func(o NodeOptions) []Option { return []Option{WithNode(o)} }
	for want, opts := range map[string][]Option{
		`node-1: labels: Invalid value: "a b"`: node(NodeOptions{Labels: map[string]string{"a b": ""}}),
		`node-1: taints[0].effect: Unsupported value: "Never"`: node(NodeOptions{Taints: []corev1.Taint{{Key: "a",
			Effect: "Never"}}}),
		`node-1: args[0]: Invalid value: "v=4"`:                 node(NodeOptions{Args: []string{"v=4"}}),
		`node-1: mounts[0].hostPath: Invalid value: "srv"`:      node(NodeOptions{Mounts: []Mount{{"srv", "/a", true}}}),
		`node-1: mounts[0].containerPath: Invalid value: "a"`:   node(NodeOptions{Mounts: []Mount{{"/srv", "a", true}}}),
		`node-1: ports[0].hostPort: Invalid value: 0`:           node(NodeOptions{Ports: []PortMapping{{ContainerPort: 1}}}),
		`node-1: ports[0].protocol: Unsupported value: "tcp"`:   node(NodeOptions{Ports: []PortMapping{{1, 1, "tcp", ""}}}),
		`node-1: ports[0].listenAddress: Invalid value: "here"`: node(NodeOptions{Ports: []PortMapping{{1, 1, "", "here"}}}),
		"1 nodes: 2 are described by WithNode": {WithNode(NodeOptions{}), WithNode(NodeOptions{}),
			WithNodes(1)},
		"options of node-1: it is left out": {WithNode(NodeOptions{}), Without(Node)},
		"mounts and ports of node-1: the nodes": {InProcess(),
			WithNode(NodeOptions{Ports: []PortMapping{{1, 1, "", ""}}})},
		"ports of node-2: host port 5/tcp is taken by the ports of node-1": {WithNode(NodeOptions{Ports: []PortMapping{{1, 5,
			"", ""}}}),
			WithNode(NodeOptions{Ports: []PortMapping{{1, 5, "TCP", ""}}})},
		"ports of node-1: host port 5/tcp is taken by the published port": {WithPublishedPort(5, 30006),
			WithNode(NodeOptions{Ports: []PortMapping{{1, 5, "", ""}}})},
		`file "/tmp/x" of kube-apiserver: want a path below`:   {WithFile(APIServer, "/tmp/x", nil)},
		`file "/etc/kubernetes/../x" of kube-apiserver: want`:  {WithFile(APIServer, "/etc/kubernetes/../x", nil)},
		`file "/etc/kubernetes/x" of coredns: it has no files`: {WithFile(DNS, "/etc/kubernetes/x", nil)},
		"files of kube-scheduler: it is left out": {WithFile(Scheduler, "/etc/kubernetes/x", nil),
			Without(Scheduler)},
	} {
		c := newConfig("x")
		var err error
		for _, opt := range opts {
			if err == nil {
				err = opt(c)
			}
		}
		if err == nil {
			err = c.check()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestLabelsAreSplit(t *testing.T) {
	kubelet, admin := NodeOptions{Role: "r", Labels: map[string]string{"a": "", "kubernetes.io": "",
		"x.k8s.io/b": "", "node.kubernetes.io/c": ""}}.split()
	own := slices.Sorted(maps.Keys(kubelet))
	other := slices.Sorted(maps.Keys(admin))
	if !slices.Equal(own, []string{"a", "kubernetes.io", "node.kubernetes.io/c"}) ||
		!slices.Equal(other, []string{"node-role.kubernetes.io/r", "x.k8s.io/b"}) {
		t.Errorf("the kubelet's %v, the administrator's %v", own, other)
	}
}
