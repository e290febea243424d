package cluster

import (
	"net/netip"
	"strings"
	"testing"
)

func TestRangesFollowTheNumberOfNodes(t *testing.T) {
	for _, test := range []struct {
		nodes          int
		pods4, pods6   string
		bits4, bits6   int
		fits4, fits6   int
		args           string
		third4, third6 string
	}{
		{1, "10.244.0.0/16", "fd00:10:244::/56", 24, 64, 256, 256, "", "10.244.3.0/24", "fd00:10:244:3::/64"},
		{128, "10.244.0.0/16", "fd00:10:244::/56", 24, 64, 256, 256, "", "10.244.3.0/24", "fd00:10:244:3::/64"},
		{129, "10.244.0.0/15", "fd00:10:244::/55", 24, 64, 512, 512, "", "10.244.3.0/24", "fd00:10:244:3::/64"},
		{1000, "10.240.0.0/13", "fd00:10:244::/53", 24, 64, 2048, 2048, "", "10.240.3.0/24", "fd00:10:244:3::/64"},
		{5000, "10.192.0.0/10", "fd00:10:244::/50", 24, 64, 1 << 14, 1 << 14, "", "10.192.3.0/24",
			"fd00:10:244:3::/64"},
		{60000, "10.128.0.0/9", "fd00:10:244::/48", 25, 64, 1 << 16, 1 << 16, "--node-cidr-mask-size-ipv4=25",
			"10.128.1.128/25", "fd00:10:244:3::/64"},
	} {
		c := newConfig("x")
		c.nodes, c.family = test.nodes, DualStack
		got := c.ranges()
		for i, want := range []struct {
			pods, third string
			bits, fits  int
		}{{test.pods4, test.third4, test.bits4, test.fits4}, {test.pods6, test.third6, test.bits6, test.fits6}} {
			r := got[i]
			if r.pods.String() != want.pods || r.nodeBits != want.bits || r.nodes() != want.fits ||
				r.node(3).String() != want.third {
				t.Errorf("%d nodes: %s cut into /%d for %d, the third %s; want %+v", test.nodes, r.pods, r.nodeBits, r.nodes(),
					r.node(3), want)
			}
			if r.pods.Overlaps(r.services) {
				t.Errorf("%d nodes: pods %s overlap with Services %s", test.nodes, r.pods, r.services)
			}
		}
		if args := strings.Join(c.nodeCIDRArgs()[2:], " "); args != test.args {
			t.Errorf("%d nodes: arguments %q, want %q", test.nodes, args, test.args)
		}
		if err := c.checkRanges(test.nodes); err != nil {
			t.Errorf("%d nodes: %v", test.nodes, err)
		}
	}
}

// Every node has a range of its own within the cluster's, whatever the size.
func TestNodesShareNoRange(t *testing.T) {
	for _, nodes := range []int{2, 300, 5000, 40000} {
		for _, f := range []family{family4, family6} {
			r, seen := f.of(nodes), map[netip.Prefix]bool{}
			for i := range nodes {
				p := r.node(i)
				if seen[p] || p != p.Masked() || !r.pods.Contains(p.Addr()) {
					t.Fatalf("%d nodes: range %s of node %d is taken, crooked or outside of %s", nodes, p, i, r.pods)
				}
				seen[p] = true
			}
		}
	}
}

func TestTooManyNodesAreRefused(t *testing.T) {
	manager := func(args ...string) Option { return WithArgs(ControllerManager, args...) }
	for _, test := range []struct {
		nodes int
		opts  []Option
		want  string // "" for none
	}{
		{70000, nil, "70000 nodes: the pod addresses --cluster-cidr=10.128.0.0/9, cut into a /25 per node, are enough for " +
			"65536"},
		{5, []Option{manager("--cluster-cidr=10.1.0.0/22")},
			"5 nodes: the pod addresses --cluster-cidr=10.1.0.0/22 of kube-controller-manager, " +
				"cut into a /24 per node, are enough for 4"},
		{4, []Option{manager("--cluster-cidr=10.1.0.0/22")}, ""},
		{5, []Option{manager("--cluster-cidr=10.1.0.0/22", "--node-cidr-mask-size=25")}, ""},
		{300, []Option{manager("--node-cidr-mask-size-ipv4=20")}, "cut into a /20 per node, are enough for 64"},
		{300, []Option{manager("--cluster-cidr=10.1.0.0/22", "--allocate-node-cidrs=false")}, ""},
		{3, []Option{manager("--cluster-cidr=fd00::/64")},
			"--cluster-cidr=fd00::/64 of kube-controller-manager, cut into a /64 per node, are enough for 1"},
		{3, []Option{manager("--cluster-cidr=10.0.0.0/28")}, "--cluster-cidr=10.0.0.0/28 has no range of /24 for a node"},
		{3, []Option{manager("--cluster-cidr=x")}, "--cluster-cidr"},
		{70000, []Option{Without(ControllerManager)}, "are enough for 65536"},
	} {
		c := newConfig("x")
		for _, opt := range append([]Option{WithNodes(test.nodes), InProcess()}, test.opts...) {
			if err := opt(c); err != nil {
				t.Fatal(err)
			}
		}
		err := c.check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d nodes, %v: %v, want %q", test.nodes, c.args[ControllerManager], err, test.want)
		}
	}
}

// A node that is added changes no range of the others, and one without a range is refused.
func TestAddedNodesKeepRanges(t *testing.T) {
	c := newConfig("x")
	c.inProcess, c.nodes = true, 200
	before := c.podCIDRs()[0]
	more, err := c.withNode(400, NodeOptions{})
	if err != nil || more.podCIDRs()[0] != before {
		t.Errorf("pods %v, %v; want %s", more.podCIDRs(), err, before)
	}
	if err := more.checkRanges(512); err != nil {
		t.Error(err)
	}
	if err := more.checkRanges(513); err == nil || !strings.Contains(err.Error(), "are enough for 512") {
		t.Errorf("one more than there are ranges: %v", err)
	}
}
