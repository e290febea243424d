package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func node(name string, cidrs ...string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.NodeSpec{PodCIDRs: cidrs}}
	if len(cidrs) > 0 {
		n.Spec.PodCIDR = cidrs[0]
	}
	return n
}

func options(cluster string, services ...string) Options {
	o := Options{MaskIPv4: 24, MaskIPv6: 64}
	for c := range strings.SplitSeq(cluster, ",") {
		o.ClusterCIDRs = append(o.ClusterCIDRs, prefix(c))
	}
	for _, s := range services {
		o.ServiceCIDRs = append(o.ServiceCIDRs, prefix(s))
	}
	return o
}

func run(t *testing.T, o Options, objects ...runtime.Object) (*fake.Clientset, *record.FakeRecorder) {
	t.Helper()
	client := runnertest.NewClient(objects...)
	return client, runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller,
		error) {
		return New(env, o)
	})
}

func cidrs(t *testing.T, client *fake.Clientset, name string) string {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Spec.PodCIDRs) > 0 && n.Spec.PodCIDR != n.Spec.PodCIDRs[0] {
		t.Errorf("podCIDR %s, podCIDRs %v", n.Spec.PodCIDR, n.Spec.PodCIDRs)
	}
	return strings.Join(n.Spec.PodCIDRs, ",")
}

func has(t *testing.T, client *fake.Clientset, name string, want ...string) {
	t.Helper()
	runnertest.Eventually(t, func() (bool, string) {
		got := cidrs(t, client, name)
		return slices.Contains(want, got), got
	})
}

// TestRespectsWhatIsThere gives out neither what nodes have nor what Services use, one of each family.
func TestRespectsWhatIsThere(t *testing.T) {
	old := node("old")
	old.Spec.PodCIDR = "10.244.1.0/24" // as old API servers kept it
	client, _ := run(t, options("10.244.0.0/22,fd00:1::/62", "10.244.2.0/25"), node("kept", "10.244.0.0/24",
		"fd00:1::/64"), old)
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node("new"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	has(t, client, "new", "10.244.3.0/24,fd00:1:0:1::/64")
	if got := cidrs(t, client, "kept"); got != "10.244.0.0/24,fd00:1::/64" {
		t.Errorf("the node that had some: %s", got)
	}
}

// TestRunsOut tells so, and gives a range once a node leaves one.
func TestRunsOut(t *testing.T) {
	client, events := run(t, options("10.244.0.0/23"), node("a", "10.244.0.0/24"), node("b", "10.244.1.0/24"), node("c"))
	runnertest.Saw(t, events, "Normal CIDRNotAvailable Node c status is now: CIDRNotAvailable")
	if err := client.CoreV1().Nodes().Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has(t, client, "c", "10.244.1.0/24")
}

// TestHalfAPairIsGivenBack: a node that can't have both families keeps neither from others.
func TestHalfAPairIsGivenBack(t *testing.T) {
	c := &Controller{held: map[string]holding{}}
	for _, r := range []struct {
		cidr string
		mask int
	}{{"10.0.0.0/30", 31}, {"fd00::/64", 64}} {
		a, err := newAllocator(prefix(r.cidr), r.mask, newMetrics(runner.Env{}))
		if err != nil {
			t.Fatal(err)
		}
		c.allocators = append(c.allocators, a)
	}
	if got, err := c.reserve(node("a")); err != nil || fmt.Sprint(got) != "[10.0.0.0/31 fd00::/64]" {
		t.Fatalf("%v: %v", got, err)
	}
	if got, err := c.reserve(node("a")); err != nil || fmt.Sprint(got) != "[10.0.0.0/31 fd00::/64]" {
		t.Errorf("asked again: %v, %v", got, err)
	}
	want := "cluster CIDR fd00::/64 has no free range for node b: enlarge it, or lengthen the node mask"
	for range 3 {
		if got, err := c.reserve(node("b")); err == nil || err.Error() != want {
			t.Errorf("%v, %v", got, err)
		}
	}
	if got, ok := c.allocators[0].allocate(); !ok || got != prefix("10.0.0.2/31") {
		t.Errorf("the half was kept: %v %v", got, ok)
	}
}

// TestRefusedWrites: what the API server refuses is free again; what may have arrived stays reserved for the node.
func TestRefusedWrites(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, c := range map[string]struct {
		err   error
		event string
		held  bool
	}{
		"refused": {apierrors.NewForbidden(nodes, "n", errors.New("no")),
			"Normal CIDRAssignmentFailed Node n status is now: CIDRAssignmentFailed", false},
		"gone":            {apierrors.NewNotFound(nodes, "n"), "", false},
		"timed out":       {apierrors.NewServerTimeout(nodes, "patch", 1), "", true},
		"connection lost": {errors.New("EOF"), "", true},
	} {
		client := fake.NewClientset()
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil,
				c.err
		})
		events := record.NewFakeRecorder(10)
		ctl := &Controller{held: map[string]holding{}, env: runner.Env{Client: client, Events: events}}
		a, err := newAllocator(prefix("10.0.0.0/24"), 24, newMetrics(runner.Env{}))
		if err != nil {
			t.Fatal(err)
		}
		ctl.allocators = []*allocator{a}
		n := node("n")
		given, err := ctl.reserve(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := ctl.write(t.Context(), n, given); (err == nil) != (name == "gone") {
			t.Errorf("%s: %v", name, err)
		}
		if _, held := ctl.held["n"]; held != c.held {
			t.Errorf("%s: held %v", name, held)
		}
		if _, free := a.allocate(); free == c.held {
			t.Errorf("%s: free %v", name, free)
		}
		event := ""
		if len(events.Events) > 0 {
			event = <-events.Events
		}
		if event != c.event {
			t.Errorf("%s: event %q, want %q", name, event, c.event)
		}
	}
}

// TestReplacedNode: another node of the same name doesn't inherit the range.
func TestReplacedNode(t *testing.T) {
	a, err := newAllocator(prefix("10.0.0.0/23"), 24, newMetrics(runner.Env{}))
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{held: map[string]holding{}, allocators: []*allocator{a}}
	c.observe(node("n", "10.0.0.0/24"))
	renewed := node("n")
	renewed.UID = "other"
	c.observe(renewed)
	if len(c.held) != 0 || a.used[0] {
		t.Errorf("held %v, used %v", c.held, a.used)
	}
	c.observe(node("n", "10.0.1.0/24"))
	if c.free("n"); len(c.held) != 0 || a.used[1] {
		t.Errorf("held %v, used %v", c.held, a.used)
	}
}

func TestParse(t *testing.T) {
	only := node("n")
	only.Spec.PodCIDR = "10.0.0.0/24"
	for name, c := range map[string]struct {
		node *v1.Node
		want []netip.Prefix
	}{
		"none":      {node("n"), nil},
		"the old":   {only, []netip.Prefix{prefix("10.0.0.0/24")}},
		"both":      {node("n", "10.0.0.0/24", "fd00::/64"), []netip.Prefix{prefix("10.0.0.0/24"), prefix("fd00::/64")}},
		"twice":     {node("n", "10.0.0.0/24", "10.0.0.0/24"), []netip.Prefix{prefix("10.0.0.0/24")}},
		"unread":    {node("n", "nonsense", "fd00::/64"), []netip.Prefix{prefix("fd00::/64")}},
		"only that": {node("n", "nonsense"), nil},
	} {
		if got := parse(c.node); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMasksThatDontFit(t *testing.T) {
	for _, c := range []struct {
		cidr string
		mask int
		want string
	}{
		{"10.0.0.0/24", 23, "node mask size /23 doesn't fit into cluster CIDR 10.0.0.0/24"},
		{"10.0.0.0/24", 33, "node mask size /33 doesn't fit into cluster CIDR 10.0.0.0/24"},
		{"fd00::/64", 129, "node mask size /129 doesn't fit into cluster CIDR fd00::/64"},
	} {
		_, err := newAllocator(prefix(c.cidr), c.mask, newMetrics(runner.Env{}))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s, /%d: %v", c.cidr, c.mask, err)
		}
		o := Options{ClusterCIDRs: []netip.Prefix{prefix(c.cidr)}, MaskIPv4: c.mask, MaskIPv6: c.mask}
		runnertest.Start(t, runnertest.NewClient(), clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
			_, err := New(env, o)
			if err == nil {
				t.Errorf("%s, /%d was taken", c.cidr, c.mask)
			}
			return idle{}, nil
		})
	}
	if a, err := newAllocator(prefix("fd00::/32"), 64, newMetrics(runner.Env{})); err != nil || a.count != maxSubnets {
		t.Errorf("a large range: %+v, %v", a, err)
	}
}

// idle is a controller that does nothing.
type idle struct{}

func (idle) Run(ctx context.Context) error { return ctx.Err() }
