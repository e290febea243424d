package forward

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"quintet.dev/quintet/components/cloudprovider/health"
)

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

func numbered(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}) }

func used(via []netip.Addr) []netip.Addr {
	return slices.Compact(slices.SortedFunc(slices.Values(via), netip.Addr.Compare))
}

// Slots are even, lead to just the nodes given, and change only as much as evenness takes.
func TestAssignSlots(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	var last []netip.Addr
	var lastVia []netip.Addr
	for range 3000 {
		var via []netip.Addr
		for i := range 9 {
			if random.IntN(2) == 0 {
				via = append(via, numbered(i))
			}
		}
		next := assignSlots(last, via)
		if len(via) == 0 {
			if next != nil {
				t.Fatalf("slots without nodes: %v", next)
			}
			last, lastVia = nil, nil
			continue
		}
		count := map[netip.Addr]int{}
		moved := 0
		for i, address := range next {
			count[address]++
			if len(last) > 0 && last[i] != address && slices.Contains(via, last[i]) {
				moved++
			}
		}
		if len(count) != len(via) {
			t.Fatalf("nodes %v, slots of %v", via, slices.Collect(maps.Keys(count)))
		}
		for address, n := range count {
			if n < slots/len(via) || n > slots/len(via)+1 {
				t.Errorf("%s has %d of %d slots among %d nodes", address, n, slots, len(via))
			}
		}
		fresh := slices.ContainsFunc(via, func(a netip.Addr) bool { return !slices.Contains(lastVia, a) })
		if moved > 0 && !fresh {
			t.Errorf("%d slots moved between nodes that stay, though none came", moved)
		}
		last, lastVia = next, via
	}
}

func TestPlan(t *testing.T) {
	const proxy = 10256
	nodes := []Node{
		{"a", []netip.Addr{ip("10.0.0.2"), ip("fd00::2")}}, {"b", []netip.Addr{ip("10.0.0.3")}},
		{"c", []netip.Addr{ip("10.0.0.4"), ip("fd00::4")}},
	}
	lb4, lb6 := ip("10.0.0.200"), ip("fd00::200")
	at := func(address string, port uint16) health.Target { return netip.AddrPortFrom(ip(address), port) }
	for name, test := range map[string]struct {
		balancer   Balancer
		healthy    []health.Target
		four, six  []netip.Addr
		wantTarget uint16
	}{
		"Cluster, all healthy": {
			Balancer{}, []health.Target{at("10.0.0.2", proxy), at("10.0.0.3", proxy), at("10.0.0.4", proxy)},
			[]netip.Addr{ip("10.0.0.2"), ip("10.0.0.3"), ip("10.0.0.4")},
			[]netip.Addr{ip("fd00::2"), ip("fd00::4")}, proxy,
		},
		"Cluster, one healthy": {
			Balancer{}, []health.Target{at("10.0.0.4", proxy)}, []netip.Addr{ip("10.0.0.4")},
			[]netip.Addr{ip("fd00::4")}, proxy,
		},
		"Cluster, none known to be healthy": {
			Balancer{}, nil,
			[]netip.Addr{ip("10.0.0.2"), ip("10.0.0.3"), ip("10.0.0.4")},
			[]netip.Addr{ip("fd00::2"), ip("fd00::4")}, proxy,
		},
		"Local, one has endpoints": {
			Balancer{HealthPort: 31000}, []health.Target{at("10.0.0.2", proxy), at("10.0.0.3", 31000)},
			[]netip.Addr{ip("10.0.0.3")}, nil, 31000,
		},
		"Local, none has endpoints": {Balancer{HealthPort: 31000}, []health.Target{at("10.0.0.2", proxy)}, nil,
			nil, 31000},
	} {
		t.Run(name, func(t *testing.T) {
			test.balancer.Addresses = []netip.Addr{lb6, lb4}
			balancers := map[string]Balancer{"default/a": test.balancer}
			healthy := func(of health.Target) bool { return slices.Contains(test.healthy, of) }
			routes := new(planner).plan(balancers, nodes, proxy, healthy)
			if len(routes) != 2 || routes[0].Address != lb4 || routes[1].Address != lb6 {
				t.Fatalf("got routes %v", routes)
			}
			if got := used(routes[0].Via); !slices.Equal(got, test.four) {
				t.Errorf("IPv4: got %v, want %v", got, test.four)
			}
			if got := used(routes[1].Via); !slices.Equal(got, test.six) {
				t.Errorf("IPv6: got %v, want %v", got, test.six)
			}
			if asked := targets(balancers, nodes, proxy); len(asked) != 3 || !asked[at("10.0.0.3", test.wantTarget)] {
				t.Errorf("asks %v", asked)
			}
		})
	}
}

// All connections of a Service with session affinity go to one node, and stay there while it is healthy.
func TestAffinityKeepsToOneNode(t *testing.T) {
	var nodes []Node
	for i := range 8 {
		nodes = append(nodes, Node{fmt.Sprint(i), []netip.Addr{numbered(i)}})
	}
	balancers := map[string]Balancer{"default/a": {Addresses: []netip.Addr{ip("10.0.0.200")}, Sticky: true}}
	p := &planner{}
	all := func(health.Target) bool { return true }
	chosen := func(nodes []Node) netip.Addr {
		t.Helper()
		via := used(p.plan(balancers, nodes, 1, all)[0].Via)
		if len(via) != 1 {
			t.Fatalf("goes to %v", via)
		}
		return via[0]
	}
	first := chosen(nodes[:4])
	if again := chosen(nodes); again != first {
		t.Errorf("moved from %s to %s", first, again)
	}
	without := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.Addresses[0] == first })
	second := chosen(without)
	if second == first {
		t.Error("stays at a node that is gone")
	}
	if again := chosen(nodes); again != second {
		t.Errorf("moved back from %s to %s", second, again)
	}
	if routes := p.plan(balancers, nil, 1, all); len(routes) != 1 || routes[0].Via != nil {
		t.Errorf("without nodes: %v", routes)
	}
}
