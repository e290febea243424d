package hostports

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func itoa(n uint16) string { return strconv.Itoa(int(n)) }

// fakeTables are tables over fakes, which stay the same when they are opened again.
func fakeTables() (*tables, map[knftables.Family]*knftables.Fake) {
	fakes := map[knftables.Family]*knftables.Fake{}
	for _, f := range families() {
		fakes[f.name] = knftables.NewFake(f.name, tableName)
	}
	open := func(name knftables.Family) (knftables.Interface, error) { return fakes[name], nil }
	absent := func(name knftables.Family) bool { return fakes[name].Table == nil }
	return &tables{open: open, absent: absent, localnet: func(netip.Addr) error { return nil }}, fakes
}

// forgotten remembers whose connections were dropped.
type forgotten []string

func (f *forgotten) Forget(mappings []Mapping) error {
	*f = append(*f, describe(mappings)...)
	slices.Sort(*f)
	return nil
}

func pod(uid types.UID, created int64, ip string, ports ...v1.ContainerPort) runtime.Pod {
	return runtime.Pod{UID: uid, Namespace: "ns", Name: string(uid), Sandboxes: []runtime.Sandbox{{
		ID: string(uid), State: runtime.Running, Created: time.Unix(created, 0), IPs: []string{ip}, Ports: ports,
	}}}
}

func tcp(port int32) v1.ContainerPort {
	return v1.ContainerPort{HostPort: port, ContainerPort: port, Protocol: v1.ProtocolTCP}
}

func udp(port int32) v1.ContainerPort {
	return v1.ContainerPort{HostPort: port, ContainerPort: port, Protocol: v1.ProtocolUDP}
}

// rig is a manager over fakes.
type rig struct {
	*Manager
	t         *testing.T
	fake      *knftables.Fake
	forgotten forgotten
}

func newRig(t *testing.T) *rig {
	filter, fakes := fakeTables()
	r := &rig{t: t, fake: fakes[knftables.IPv4Family]}
	r.Manager = NewManager(filter, &r.forgotten)
	return r
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// open checks which ports lead where.
func (r *rig) open(want ...string) {
	r.t.Helper()
	var got []string
	elements, err := r.fake.ListElements(r.t.Context(), "map", portsMap)
	if err != nil && !knftables.IsNotFound(err) {
		r.t.Fatal(err)
	}
	for _, e := range elements {
		got = append(got, strings.Join(e.Key, " ")+" "+strings.Join(e.Value, ":"))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.t.Errorf("open are %q, want %q", got, want)
	}
}

func TestPortsFollowPods(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	a, b := pod("a", 1, "10.1.0.1", tcp(80), udp(53)), pod("b", 2, "10.1.0.2", tcp(81))
	r.ok(r.Sync(ctx, nil))
	r.ok(r.Set(ctx, &a))
	r.ok(r.Set(ctx, &b))
	r.open("tcp 80 10.1.0.1:80", "tcp 81 10.1.0.2:81", "udp 53 10.1.0.1:53")
	if want := []string{"UDP - 53 10.1.0.1:53"}; !slices.Equal(r.forgotten, want) {
		t.Errorf("forgotten are %q, want %q", r.forgotten, want)
	}
	a.Sandboxes[0].State = runtime.Exited
	r.ok(r.Set(ctx, &a))
	r.open("tcp 81 10.1.0.2:81")
	r.ok(r.Forget(ctx, "b"))
	r.open()
}

// A kubelet that starts keeps the ports of pods that run, opens no port for those that do not, and waits with new ones.
func TestRestart(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	a, b := pod("a", 1, "10.1.0.1", tcp(80)), pod("b", 2, "10.1.0.2", tcp(81))
	r.ok(r.Sync(ctx, []runtime.Pod{a, b}))
	r.open("tcp 80 10.1.0.1:80", "tcp 81 10.1.0.2:81")

	again := &rig{t: t, fake: r.fake}
	filter := &tables{
		open:     func(knftables.Family) (knftables.Interface, error) { return r.fake, nil },
		absent:   func(knftables.Family) bool { return r.fake.Table == nil },
		localnet: func(netip.Addr) error { return nil },
	}
	again.Manager = NewManager(filter, &again.forgotten)
	c, done := pod("c", 3, "10.1.0.3", tcp(82)), make(chan error)
	go func() { done <- again.Set(ctx, &c) }()
	b.Sandboxes[0].State = runtime.Exited
	again.ok(again.Sync(ctx, []runtime.Pod{a, b}))
	again.ok(<-done)
	again.open("tcp 80 10.1.0.1:80", "tcp 82 10.1.0.3:82")
	again.ok(again.Sync(ctx, []runtime.Pod{c})) // a is gone, and had no worker
	again.open("tcp 82 10.1.0.3:82")
}

func TestNewerSandboxGetsThePort(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	old, young := pod("z-old", 1, "10.1.0.1", tcp(80)), pod("a-young", 2, "10.1.0.2", tcp(80))
	r.ok(r.Sync(ctx, nil))
	r.ok(r.Set(ctx, &young))
	r.ok(r.Set(ctx, &old))
	r.open("tcp 80 10.1.0.2:80")
	r.ok(r.Forget(ctx, "a-young"))
	r.open("tcp 80 10.1.0.1:80")
}

func TestRemovedRulesComeBack(t *testing.T) {
	for name, remove := range map[string]func(*knftables.Transaction){
		"table":   func(tx *knftables.Transaction) { tx.Delete(&knftables.Table{}) },
		"chain":   func(tx *knftables.Transaction) { tx.Flush(&knftables.Chain{Name: preroutingChain}) },
		"element": func(tx *knftables.Transaction) { tx.Flush(&knftables.Map{Name: portsMap}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a := pod("a", 1, "10.1.0.1", tcp(80))
			r.ok(r.Sync(t.Context(), nil))
			r.ok(r.Set(t.Context(), &a))
			before := r.fake.Dump()
			tx := r.fake.NewTransaction()
			remove(tx)
			r.ok(r.fake.Run(t.Context(), tx))
			r.ok(r.Sync(t.Context(), []runtime.Pod{a}))
			if got := r.fake.Dump(); got != before {
				t.Errorf("got\n%s\nwant\n%s", got, before)
			}
		})
	}
}

// Where nftables can't be used, pods without host ports do not notice.
func TestWithoutNftables(t *testing.T) {
	missing := errors.New("no such program")
	filter := &tables{
		open:   func(knftables.Family) (knftables.Interface, error) { return nil, missing },
		absent: func(knftables.Family) bool { return false }, // so that it tries
	}
	m := NewManager(filter, &forgotten{})
	ctx := t.Context()
	plain, open := pod("a", 1, "10.1.0.1"), pod("b", 2, "10.1.0.2", tcp(80))
	for name, err := range map[string]error{
		"Sync": m.Sync(ctx, []runtime.Pod{plain}), "Set": m.Set(ctx, &plain), "Forget": m.Forget(ctx, "a"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := m.Set(ctx, &open)
	if !errors.Is(err, missing) || !strings.Contains(err.Error(), "is the program nft installed?") {
		t.Errorf("a pod with a host port gets %v", err)
	}
	if err := m.Sync(ctx, []runtime.Pod{plain}); err != nil {
		t.Errorf("after a failure: %v", err)
	}
}

func TestSetGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := pod("a", 1, "10.1.0.1", tcp(80))
	if err := newRig(t).Set(ctx, &a); !errors.Is(err, context.Canceled) {
		t.Errorf("before the first Sync: %v", err)
	}
}

func TestStaleFlows(t *testing.T) {
	flows := staleFlows{
		mapping(v1.ProtocolUDP, "", 53, "10.1.0.2:53"), mapping(v1.ProtocolUDP, "10.0.0.1", 54, "10.1.0.2:53"),
	}
	for name, test := range map[string]struct {
		protocol uint8
		to       string
		port     uint16
		answers  string
		want     bool
	}{
		"not translated":       {unix.IPPROTO_UDP, "10.0.0.9", 53, "10.0.0.9", true},
		"translated to it":     {unix.IPPROTO_UDP, "10.0.0.9", 53, "10.1.0.2", true},
		"a Service's":          {unix.IPPROTO_UDP, "10.96.0.10", 53, "10.1.0.7", false},
		"another port":         {unix.IPPROTO_UDP, "10.0.0.9", 55, "10.0.0.9", false},
		"another protocol":     {unix.IPPROTO_TCP, "10.0.0.9", 53, "10.0.0.9", false},
		"the host IP":          {unix.IPPROTO_UDP, "10.0.0.1", 54, "10.0.0.1", true},
		"another host address": {unix.IPPROTO_UDP, "10.0.0.9", 54, "10.0.0.9", false},
	} {
		flow := &netlink.ConntrackFlow{
			Forward: netlink.IPTuple{Protocol: test.protocol, DstIP: net.ParseIP(test.to), DstPort: test.port},
			Reverse: netlink.IPTuple{SrcIP: net.ParseIP(test.answers)},
		}
		if got := flows.MatchConntrackFlow(flow); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
