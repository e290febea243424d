package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"quintet.dev/quintet/cluster/internal/backend"
)

// TestBadValues: a value that an option can't take gives an error that names the option's subject and the value.
func TestBadValues(t *testing.T) {
	long := strings.Repeat("a", 41)
	for want, opt := range map[string]Option{
		`cluster name "": use at most 40 lower-case letters, digits and dashes`: WithName(""),
		`cluster name "-a"`:                               WithName("-a"),
		`cluster name "a-"`:                               WithName("a-"),
		`cluster name "a_b"`:                              WithName("a_b"),
		`cluster name "A"`:                                WithName("A"),
		`cluster name "a.b"`:                              WithName("a.b"),
		`cluster name "` + long + `"`:                     WithName(long),
		"-1 nodes: at least 0":                            WithNodes(-1),
		"0 API servers: at least 1":                       WithAPIServers(0),
		"0 etcd members: at least 1":                      WithEtcdMembers(0),
		"published port 0:30080: ports are between":       WithPublishedPort(0, 30080),
		"published port 65536:30080":                      WithPublishedPort(65536, 30080),
		"published port 80:0":                             WithPublishedPort(80, 0),
		"published port 80:65536":                         WithPublishedPort(80, 65536),
		`IP family "ipv5": use one of [ipv4 ipv6 dual]`:   WithIPFamily("ipv5"),
		`no component "kube-shceduler"; there are [etcd `: WithImage("kube-shceduler", "x"),
		`no component "x"`:                                WithArgs("x", "--y"),
		`no component "y"`:                                Without("y"),
		"image of etcd: empty":                            WithImage(Etcd, ""),
		"a cluster needs its API server":                  Without(APIServer),
		"several API servers need their balancer":         Without(APIBalancer),
		`runtime "podman": docker or cri`:                 WithRuntime("podman"),
		`store "disk": memory or etcd3`:                   WithStore("disk"),
		"progress: no function to report to":              WithProgress(nil),
	} {
		c := newConfig("x")
		if err := opt(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := newConfig("x")
	if err := WithPublishedPort(80, 30080)(c); err != nil {
		t.Fatal(err)
	}
	if err := WithPublishedPort(80, 30080)(c); err != nil {
		t.Errorf("the same port again: %v", err)
	}
	if err := WithPublishedPort(80, 30081)(c); err == nil ||
		err.Error() != "published port 80:30081: port 80 is published already" {
		t.Errorf("a port for another one: %v", err)
	}
}

// TestGoodNames: what fits containers, hosts and files is a name.
func TestGoodNames(t *testing.T) {
	for _, name := range []string{"a", "7", "a-b", "a--b", "0a9", strings.Repeat("a", 40)} {
		c := newConfig("x")
		if err := WithName(name)(c); err != nil || c.name != name {
			t.Errorf("%q: %v", name, err)
		}
	}
	if a, b := randomName(), randomName(); a == b || !validName.MatchString(a) {
		t.Errorf("random names %s and %s", a, b)
	}
}

// TestNames: which members each component has.
func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		opts []Option
		want map[Component]string
	}{
		"default": {nil, map[Component]string{Etcd: "etcd-0", APIServer: "apiserver-0", APIBalancer: "",
			ControllerManager: "controller-manager-0", Scheduler: "scheduler-0", Routes: "routes-0", Node: "node-1",
			CloudProvider: "cloud-provider-0", VolumeProvisioner: "", MetricsServer: "", DNS: "", KubeProxy: ""}},
		"highly available": {[]Option{WithEtcdMembers(3), WithAPIServers(2), WithNodes(2), WithMetricsServer()},
			map[Component]string{Etcd: "etcd-0 etcd-1 etcd-2", APIServer: "apiserver-0 apiserver-1",
				APIBalancer: "api-balancer-0", Routes: "routes-0 routes-1", Node: "node-1 node-2",
				MetricsServer: "metrics-server-0"}},
		"no nodes": {[]Option{WithNodes(0)}, map[Component]string{Node: "", Routes: "", CloudProvider: ""}},
		"in process": {[]Option{InProcess()}, map[Component]string{Etcd: "", Routes: "", CloudProvider: "",
			VolumeProvisioner: "volume-provisioner-0"}},
		"in process, etcd": {[]Option{InProcess(), WithStore(EmbeddedEtcd)},
			map[Component]string{Etcd: "etcd-0"}},
		"without": {[]Option{Without(Etcd), Without(Scheduler), Without(Node)},
			map[Component]string{Etcd: "", Scheduler: "", Node: "", CloudProvider: ""}},
	} {
		config := configured(t, c.opts...)
		for component, want := range c.want {
			if got := strings.Join(config.names(component), " "); got != want {
				t.Errorf("%s: %s are %q, want %q", name, component, got, want)
			}
		}
	}
}

// TestRuns: components that are no members run by what the cluster has.
func TestRuns(t *testing.T) {
	for name, c := range map[string]struct {
		opts []Option
		runs []Component
	}{
		"containers": {nil, []Component{KubeProxy, NetworkPolicy, VolumeProvisioner, DNS}},
		"no nodes":   {[]Option{WithNodes(0)}, nil},
		"in process": {[]Option{InProcess()}, []Component{VolumeProvisioner}},
		"left out": {[]Option{Without(KubeProxy), Without(NetworkPolicy), WithoutDNS(), WithoutDefaultStorageClass()},
			nil},
	} {
		config := configured(t, c.opts...)
		for _, component := range []Component{KubeProxy, NetworkPolicy, VolumeProvisioner, DNS} {
			if got := config.runs(component); got != slices.Contains(c.runs, component) {
				t.Errorf("%s runs %s: %v", name, component, got)
			}
		}
	}
}

// TestPlacements: what must be reached from outside has its port; what shares a network, or runs in this process beside
// containers, is not placed.
func TestPlacements(t *testing.T) {
	for name, c := range map[string]struct {
		opts []Option
		want []backend.Placement
	}{
		"containers": {[]Option{WithAPIServers(2)}, []backend.Placement{{Name: "etcd-0", Port: 2379},
			{Name: "apiserver-0", Port: 6443}, {Name: "apiserver-1", Port: 6443}, {Name: "api-balancer-0", Port: 6443},
			{Name: "controller-manager-0"}, {Name: "scheduler-0", Port: 10259}, {Name: "node-1"},
			{Name: "cloud-provider-0"}}},
		"a scheduler of a test": {[]Option{WithScheduler(), WithNodes(0)}, []backend.Placement{
			{Name: "etcd-0", Port: 2379}, {Name: "apiserver-0", Port: 6443}, {Name: "controller-manager-0"},
			{Name: "scheduler-0", Port: 10259, InProcess: true}}},
		"in process": {[]Option{InProcess(), WithScheduler(), WithMetricsServer()}, []backend.Placement{
			{Name: "apiserver-0", Port: 6443}, {Name: "controller-manager-0"}, {Name: "scheduler-0", Port: 10259},
			{Name: "node-1", Port: 10250}, {Name: "volume-provisioner-0"}, {Name: "metrics-server-0", Port: 10250}}},
	} {
		if got := configured(t, c.opts...).placements(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRanges(t *testing.T) {
	for family, want := range map[IPFamily]string{
		IPv4: "10.244.0.0/16 | 10.96.0.0/16 | 10.244.11.0/24 | 10.96.0.1 | 10.96.0.10",
		IPv6: "fd00:10:244::/56 | fd00:10:96::/112 | fd00:10:244:b::/64 | fd00:10:96::1 | fd00:10:96::a",
		DualStack: "10.244.0.0/16,fd00:10:244::/56 | 10.96.0.0/16,fd00:10:96::/112 | 10.244.11.0/24,fd00:10:244:b::/64" +
			" | 10.96.0.1,fd00:10:96::1 | 10.96.0.10,fd00:10:96::a",
	} {
		c := newConfig("x")
		if err := WithIPFamily(family)(c); err != nil {
			t.Fatal(err)
		}
		got := strings.Join([]string{joined(c.podCIDRs()), joined(c.serviceCIDRs()), joined(c.nodePodCIDRs(11)),
			joined(c.serviceIPs(1)), joined(c.serviceIPs(dnsServiceIP))}, " | ")
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", family, got, want)
		}
		l := &layout{config: c, addressing: street{}}
		ips := len(l.nodeIPs("node-1"))
		if wanted := map[IPFamily]int{IPv4: 1, IPv6: 1, DualStack: 2}[family]; ips != wanted {
			t.Errorf("%s: %v", family, l.nodeIPs("node-1"))
		}
	}
}

// TestLaterOptionsWin, but arguments add up.
func TestLaterOptionsWin(t *testing.T) {
	c := configured(t, WithNodes(1), WithNodes(3), WithImage(Scheduler, "a"), WithImage(Scheduler, "b"),
		WithArgs(Node, "--a", "--b"), WithArgs(Node, "--c"))
	if c.nodes != 3 || c.image(Scheduler) != "b" || c.image(Etcd) != "quintet/etcd:dev" ||
		fmt.Sprint(c.args[Node]) != "[--a --b --c]" {
		t.Errorf("%+v", c)
	}
}
