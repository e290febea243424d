package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/internal/certs"
)

// TestNodesComeAndGo: added nodes run pods, have ranges of their own, and a removed one does not come back.
func TestNodesComeAndGo(t *testing.T) {
	for name, opts := range map[string][]Option{"with controllers": nil, "without": {Without(ControllerManager)}} {
		t.Run(name, func(t *testing.T) {
			c, client := started(t, append(opts, WithNodes(2))...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			added, err := c.AddNode(ctx, NodeOptions{Role: "late", Labels: map[string]string{"zone": "z"}})
			if err != nil || added.Name() != "node-3" {
				t.Fatalf("%v, %v", added, err)
			}
			if err := c.RemoveNode(ctx, 2); err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().Nodes().Get(ctx, "node-2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the removed node: %v", err)
			}
			if err := c.Node(2).Start(ctx); err == nil {
				t.Error("the removed node can be started")
			}
			if fourth, err := c.AddNode(ctx, NodeOptions{}); err != nil || fourth.Name() != "node-4" {
				t.Fatalf("%v, %v", fourth, err)
			}
			nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var names, ranges []string
			for _, n := range nodes.Items {
				names, ranges = append(names, n.Name), append(ranges, n.Spec.PodCIDR)
				if n.Name == "node-3" && (n.Labels["zone"] != "z" || !hasKey(n.Labels, "node-role.kubernetes.io/late")) {
					t.Errorf("labels of the added node: %v", n.Labels)
				}
			}
			slices.Sort(ranges)
			if fmt.Sprint(names) != "[node-1 node-3 node-4]" || name == "with controllers" && len(slices.Compact(ranges)) != 3 {
				t.Errorf("nodes %v with the ranges %v", names, ranges)
			}
			if err := c.WaitNodes(ctx); err != nil {
				t.Error(err)
			}
			if name == "without" {
				return
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"zone": "z"}, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			phase(ctx, t, client, "late", corev1.PodRunning)
		})
	}
}

func hasKey(labels map[string]string, key string) bool { _, ok := labels[key]; return ok }

// TestNodesThatCantCome: a node that does not come up is removed again, and errors name it.
func TestNodesThatCantCome(t *testing.T) {
	c, client := started(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	short, end := context.WithTimeout(ctx, time.Second)
	defer end()
	_, err := c.AddNode(short, NodeOptions{Args: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "add node-2") || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("%v", err)
	}
	if len(c.Component(Node).Members) != 1 {
		t.Error("it is among the members")
	}
	if _, err := c.AddNode(ctx, NodeOptions{Mounts: []Mount{{"/a", "/a", false}}}); err == nil ||
		!strings.Contains(err.Error(), "mounts and ports of node-2") {
		t.Errorf("%v", err)
	}
	if err := c.RemoveNode(ctx, 7); err == nil || !strings.Contains(err.Error(), `no member "node-7"`) {
		t.Errorf("%v", err)
	}
	if added, err := c.AddNode(ctx, NodeOptions{}); err != nil || added.Name() != "node-2" {
		t.Errorf("%v, %v", added, err)
	}
	if _, err := client.CoreV1().Nodes().Get(ctx, "node-2", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestAddNodeToContainers: what a node needs besides its member is carried out, and undone after a failure.
func TestAddNodeToContainers(t *testing.T) {
	c, b := faked(map[string]error{"start node-2": errors.New("no room")}, "etcd-0/etcd", "apiserver-0/kube-apiserver",
		"node-1/node")
	c.addressing = nowhere{}
	authority, err := certs.NewAuthority("x")
	if err != nil {
		t.Fatal(err)
	}
	c.ids = &identities{cluster: authority}
	if _, err := c.AddNode(t.Context(), NodeOptions{}); err == nil || fmt.Sprint(b.log) != "[add node-2 start node-2]" {
		t.Errorf("%v, %v", b.log, err)
	}
	c.config.nodes = 0
	if _, err := c.AddNode(t.Context(), NodeOptions{}); err == nil ||
		!strings.Contains(err.Error(), "was started without nodes") {
		t.Errorf("%v", err)
	}
}

// TestRecord: what API servers keep makes the same node as the configuration of the start.
func TestRecord(t *testing.T) {
	opts := []Option{WithNodes(2), WithAPIServers(2), WithIPFamily(DualStack), Without(NetworkPolicy),
		WithArgs(Node, "--v=4"), WithArgs(Routes, "--x"), WithImage(Node, "mine:1"),
		WithFile(Node, "/etc/kubernetes/a", []byte("a"))}
	first := configured(t, opts...)
	content, err := first.record()
	if err != nil {
		t.Fatal(err)
	}
	kept := &fakeInstance{backend: &fakeBackend{}, files: map[string][]byte{recordFile: content}}
	second, err := configOf(t.Context(), "x", &Member{name: "apiserver-0", instance: kept})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := newIdentities(time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for _, c := range []*config{first, second} {
		c, err := c.withNode(3, NodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l := &layout{config: c, addressing: street{}, ids: ids}
		m, err := l.member(Node, l.node, "node-3")
		if err != nil {
			t.Fatal(err)
		}
		d := describer{T: t, ids: ids}
		d.member(&m)
		described = append(described, d.out.String())
	}
	if described[0] != described[1] || !strings.Contains(described[0], "--v=4") {
		t.Errorf("%s\nbut by the record\n%s", described[0], described[1])
	}
}
