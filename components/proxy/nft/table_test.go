package nft

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/model"
	"quintet.dev/quintet/internal/nftcheck"
	"quintet.dev/quintet/internal/nftcheck/nftchecktest"
)

// port is a Service's port with so many endpoints, half of them on this node.
func port(name string, endpoints int, change ...func(*model.ServicePort)) model.ServicePort {
	p := model.ServicePort{
		Key: model.PortKey{
			NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}, Port: "http", Protocol: v1.ProtocolTCP,
			Family: v1.IPv4Protocol,
		},
		ClusterIP: netip.MustParseAddr("10.96.0.7"), Port: 80, HasAnyEndpoint: endpoints > 0,
	}
	for i := range endpoints {
		p.ClusterEndpoints = append(p.ClusterEndpoints, model.Endpoint{
			IP: netip.AddrFrom4([4]byte{10, 244, byte(i % 2), byte(i + 2)}), Port: 8080, Local: i%2 == 0,
		})
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func table4(nft knftables.Interface) *Table {
	return New(Config{
		Family: v1.IPv4Protocol, MasqueradeBit: 14, LocalTraffic: "ip saddr 10.244.0.0/16",
		NotLocalTraffic: "ip saddr != 10.244.0.0/16", NodePortIPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
	}, nft, kernelOf(nft))
}

// kernelOf lists a fake's table, or the one of this network namespace.
func kernelOf(nft knftables.Interface) nftcheck.Kernel {
	switch of := nft.(type) {
	case *knftables.Fake:
		return &nftchecktest.Kernel{Fake: of}
	case *broken:
		return &nftchecktest.Kernel{Fake: of.Fake}
	default:
		return nftcheck.Table{Family: unix.NFPROTO_IPV4, Name: table}
	}
}

func newFake() *knftables.Fake { return knftables.NewFake(knftables.IPv4Family, table) }

// dump is the table's content, sorted: the order of chains and elements means nothing.
func dump(fake *knftables.Fake) string {
	lines := strings.Split(strings.TrimSpace(fake.Dump()), "\n")
	slices.SortStableFunc(lines, func(a, b string) int {
		rules := strings.HasPrefix(a, "add rule") && strings.HasPrefix(b, "add rule")
		if rules && strings.Fields(a)[4] == strings.Fields(b)[4] {
			return 0 // the order of a chain's rules does
		}
		return strings.Compare(a, b)
	})
	return strings.Join(lines, "\n")
}

func sync(t *testing.T, table *Table, updated []model.ServicePort, deleted ...model.PortKey) {
	t.Helper()
	if _, err := table.Sync(t.Context(), updated, deleted); err != nil {
		t.Fatal(err)
	}
}

func local(p *model.ServicePort) {
	p.LocalEndpoints = slices.DeleteFunc(slices.Clone(p.ClusterEndpoints),
		func(e model.Endpoint) bool { return !e.Local })
}

func TestRules(t *testing.T) {
	nodePort := func(p *model.ServicePort) { p.NodePort = 30080 }
	for name, test := range map[string]struct {
		port       model.ServicePort
		want, deny []string
	}{
		"cluster IP": {
			port("a", 2),
			[]string{
				"ip daddr 10.96.0.7 tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade",
				"dnat ip to numgen random mod 2 map { 0 : 10.244.0.2 . 8080, 1 : 10.244.1.3 . 8080 }",
				"service-ips { 10.96.0.7 . tcp . 80 : goto service-",
				"hairpin-connections { 10.244.0.2 . 10.244.0.2 . tcp . 8080 }",
			},
			[]string{"no-endpoint-services { 10", "hairpin-connections { 10.244.1.3"},
		},
		"no endpoint": {
			port("a", 0), []string{"no-endpoint-services { 10.96.0.7 . tcp . 80 : goto reject-chain }"},
			[]string{"dnat ip to"},
		},
		"internal Local without endpoints here": {
			port("a", 2, func(p *model.ServicePort) { p.InternalLocal = true }),
			[]string{"no-endpoint-services { 10.96.0.7 . tcp . 80 : drop }"}, []string{"service-ips { 10"},
		},
		"node port": {
			port("a", 1, nodePort),
			[]string{"service-nodeports { tcp . 30080 : goto external-", "jump mark-for-masquerade"}, nil,
		},
		"external Local": {
			port("a", 2, nodePort, local, func(p *model.ServicePort) { p.ExternalLocal = true }),
			[]string{
				"ip saddr 10.244.0.0/16 goto service-", "fib saddr type local goto service-", "goto local-",
				"mod 1 map { 0 : 10.244.0.2",
			},
			[]string{"no-endpoint-nodeports { tcp"},
		},
		"external Local without endpoints here": {
			port("a", 2, nodePort, func(p *model.ServicePort) { p.ExternalLocal = true }),
			[]string{"no-endpoint-nodeports { tcp . 30080 : drop }",
				"service-nodeports { tcp . 30080 : goto external-"}, nil,
		},
		"affinity": {
			port("a", 1, func(p *model.ServicePort) { p.AffinitySeconds = 60 }),
			[]string{"update @affinity-", "timeout 60s", "numgen random mod 1 vmap { 0 : goto endpoint-"},
			[]string{"dnat ip to"},
		},
		"source ranges": {
			port("a", 1, func(p *model.ServicePort) {
				p.LoadBalancerIPs = []netip.Addr{netip.MustParseAddr("1.2.3.4")}
				p.SourceRanges, p.SourceRangesSet = []netip.Prefix{netip.MustParsePrefix("9.0.0.0/8")}, true
			}),
			[]string{
				"firewall-ips { 1.2.3.4 . tcp . 80 : goto firewall-", "ip saddr != { 9.0.0.0/8 } drop",
				"service-ips { 1.2.3.4 . tcp . 80",
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFake()
			sync(t, table4(fake), []model.ServicePort{test.port})
			got := fake.Dump()
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			for _, deny := range test.deny {
				if strings.Contains(got, deny) {
					t.Errorf("%q in\n%s", deny, got)
				}
			}
		})
	}
}

// randomPort is one of few Services in one of many states.
func randomPort(random *rand.Rand) model.ServicePort {
	return port(fmt.Sprintf("s%d", random.IntN(4)), random.IntN(5), func(p *model.ServicePort) {
		p.ClusterIP = netip.AddrFrom4([4]byte{10, 96, 0, byte(p.Key.Name[1])})
		p.InternalLocal, p.ExternalLocal = random.IntN(3) == 0, random.IntN(3) == 0
		p.AffinitySeconds = 60 * random.IntN(2)
		if random.IntN(2) == 0 {
			p.NodePort = 30000 + uint16(p.Key.Name[1])
		}
		if random.IntN(3) == 0 {
			p.LoadBalancerIPs = []netip.Addr{netip.AddrFrom4([4]byte{1, 1, 1, byte(p.Key.Name[1])})}
			p.SourceRangesSet = random.IntN(2) == 0
		}
		local(p)
	})
}

// Whatever the order of changes, the table is that of a fresh start.
func TestChangesGiveWhatAFreshStartGives(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		fake := newFake()
		table := table4(fake)
		desired := map[model.PortKey]model.ServicePort{}
		for range 12 {
			p := randomPort(random)
			if random.IntN(4) == 0 {
				delete(desired, p.Key)
				sync(t, table, nil, p.Key)
			} else {
				desired[p.Key] = p
				sync(t, table, []model.ServicePort{p})
			}
		}
		fresh := newFake()
		var all []model.ServicePort
		for _, p := range desired {
			all = append(all, p)
		}
		sync(t, table4(fresh), all)
		if got, want := dump(fake), dump(fresh); got != want {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, got, want)
		}
	}
}

// A table that another program flushed is found out, and the next sync brings everything back.
func TestFlushedTableIsRebuilt(t *testing.T) {
	fake := newFake()
	table := table4(fake)
	sync(t, table, []model.ServicePort{port("a", 2)})
	before := dump(fake)
	if ok, err := table.Check(); !ok || err != nil {
		t.Fatalf("an intact table: %v, %v", ok, err)
	}
	tx := fake.NewTransaction()
	tx.Delete(&knftables.Table{})
	if err := fake.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	if ok, _ := table.Check(); ok {
		t.Fatal("the table is gone and that is fine")
	}
	table.Invalidate()
	sync(t, table, nil)
	if got := dump(fake); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
}

// broken refuses transactions after some that pass, and has the rest of a fake's.
type broken struct {
	*knftables.Fake
	fails  bool
	passes int
}

func (b *broken) Run(ctx context.Context, tx *knftables.Transaction) error {
	if b.passes--; b.fails && b.passes < 0 {
		return errors.New("broken")
	}
	return b.Fake.Run(ctx, tx)
}

// What could not be written is written with the next sync, that of a deletion too.
func TestFailedSyncIsMadeUpFor(t *testing.T) {
	fake := &broken{Fake: newFake()}
	table := table4(fake)
	a, b, c := port("a", 2), port("b", 1), port("c", 3)
	b.ClusterIP, c.ClusterIP = netip.MustParseAddr("10.96.0.8"), netip.MustParseAddr("10.96.0.9")
	sync(t, table, []model.ServicePort{a, b})
	fake.fails = true
	if _, err := table.Sync(t.Context(), []model.ServicePort{c}, []model.PortKey{a.Key}); err == nil {
		t.Fatal("the failure is not told")
	}
	if ok, _ := table.Check(); ok {
		t.Error("the table is behind and that is fine")
	}
	fake.fails = false
	sync(t, table, nil)
	fresh := newFake()
	sync(t, table4(fresh), []model.ServicePort{b, c})
	if got, want := dump(fake.Fake), dump(fresh); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A full sync leaves clients with the endpoint that they had.
func TestAffinitySurvivesFullSync(t *testing.T) {
	fake := newFake()
	table := table4(fake)
	sticky := func(p *model.ServicePort) { p.AffinitySeconds = 60 }
	sync(t, table, []model.ServicePort{port("a", 2, sticky)})
	sets := table.applied[port("a", 2).Key].affinity
	tx := fake.NewTransaction()
	for i, set := range sets {
		tx.Add(&knftables.Element{Set: set.name, Key: []string{fmt.Sprintf("1.2.3.%d", i)}})
	}
	if err := fake.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	before := dump(fake)
	fresh := table4(fake) // as after a restart
	outcome, err := fresh.Sync(t.Context(), []model.ServicePort{port("a", 2, sticky)}, nil)
	if err != nil || !outcome.Full {
		t.Fatalf("outcome %+v, error %v", outcome, err)
	}
	if got := dump(fake); got != before || len(sets) != 2 {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
	// An endpoint that is gone takes its clients along.
	sync(t, fresh, []model.ServicePort{port("a", 1, sticky)})
	fresh.Invalidate()
	sync(t, fresh, nil)
	if got := dump(fake); !strings.Contains(got, "{ 1.2.3.0 }") || strings.Contains(got, "1.2.3.1") {
		t.Errorf("got\n%s", got)
	}
}

// Objects that can't be deleted are reported, and deleted with the next sync.
func TestFailedCleanupIsTold(t *testing.T) {
	fake := &broken{Fake: newFake()}
	table := table4(fake)
	a := port("a", 2)
	sync(t, table, []model.ServicePort{a})
	fake.fails, fake.passes = true, 1
	outcome, err := table.Sync(t.Context(), nil, []model.PortKey{a.Key})
	if err != nil || outcome.CleanupErr == nil || outcome.Full {
		t.Fatalf("outcome %+v, error %v", outcome, err)
	}
	fake.fails = false
	if outcome, err := table.Sync(t.Context(), nil, nil); err != nil || outcome.CleanupErr != nil {
		t.Fatalf("outcome %+v, error %v", outcome, err)
	}
	if got := dump(fake.Fake); strings.Contains(got, "service-"+portName(a.Key)) {
		t.Errorf("left:\n%s", got)
	}
}

// Services that name the same external address don't keep the others from their rules: one has it, and when that one
// leaves, another.
func TestAddressOfTwoServices(t *testing.T) {
	fake := newFake()
	table := table4(fake)
	shared := func(p *model.ServicePort) {
		p.ClusterIP = netip.AddrFrom4([4]byte{10, 96, 1, p.Key.Name[0]})
		p.ExternalIPs = []netip.Addr{netip.MustParseAddr("1.2.3.4")}
	}
	a, b := port("a", 1, shared), port("b", 1, shared)
	sync(t, table, []model.ServicePort{a, b})
	count := func(want int) {
		t.Helper()
		if got := strings.Count(fake.Dump(), "service-ips { 1.2.3.4 . tcp . 80 : goto external-"); got != want {
			t.Errorf("%d elements, want %d:\n%s", got, want, fake.Dump())
		}
	}
	count(1)
	sync(t, table, nil, a.Key)
	count(1)
	sync(t, table, nil, b.Key)
	count(0)
}
