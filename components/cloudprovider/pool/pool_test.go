package pool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func none(netip.Addr) bool { return false }

func made(t *testing.T, reserved func(netip.Addr) bool, prefixes ...string) *Pool {
	t.Helper()
	var parsed []netip.Prefix
	for _, prefix := range prefixes {
		parsed = append(parsed, netip.MustParsePrefix(prefix))
	}
	p, err := New(parsed, reserved)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for name, prefixes := range map[string][]netip.Prefix{
		"none":     nil,
		"host set": {netip.MustParsePrefix("10.0.0.1/24")},
		"overlap":  {netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.0.0.128/25")},
	} {
		if _, err := New(prefixes, none); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAllAddressesAreHandedOutOnce(t *testing.T) {
	reserved := netip.MustParseAddr("10.0.0.255")
	p := made(t, func(a netip.Addr) bool { return a == reserved }, "10.0.0.192/26", "fd00::/120", "10.0.1.0/31")
	owners := map[netip.Addr]string{}
	for i := range 65 {
		owner := fmt.Sprintf("default/%d", i)
		address, err := p.Allocate(owner, v1.IPv4Protocol)
		if err != nil {
			t.Fatalf("address %d: %v", i, err)
		}
		if owners[address] != "" || address == reserved || !p.contains(address) || !address.Is4() {
			t.Errorf("address %d is %s", i, address)
		}
		owners[address] = owner
	}
	if _, err := p.Allocate("one/more", v1.IPv4Protocol); !errors.Is(err, ErrExhausted) {
		t.Errorf("got %v", err)
	}
	if address, err := p.Allocate("one/more", v1.IPv6Protocol); err != nil || !address.Is6() {
		t.Errorf("got %s, %v", address, err)
	}
}

func TestReserve(t *testing.T) {
	gateway := netip.MustParseAddr("10.0.0.1")
	p := made(t, func(a netip.Addr) bool { return a == gateway }, "10.0.0.0/24")
	free := netip.MustParseAddr("10.0.0.7")
	for range 2 {
		if err := p.Reserve("a/a", free); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Reserve("b/b", free); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
	for _, address := range []netip.Addr{gateway, netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("fd00::1")} {
		if err := p.Reserve("b/b", address); err == nil || errors.Is(err, ErrInUse) {
			t.Errorf("%s: %v", address, err)
		}
	}
	p.Release(free)
	if err := p.Reserve("b/b", free); err != nil {
		t.Error(err)
	}
}

// An owner gets back its address as long as that is free, after any other allocations and releases.
func TestAllocationIsDeterministic(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := made(t, none, "10.0.0.0/26", "fd00::/64")
	first := map[string]netip.Addr{}
	held := map[netip.Addr]string{}
	for range 2000 {
		owner := fmt.Sprintf("ns/%d", random.IntN(40))
		family := []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}[random.IntN(2)]
		alone := made(t, none, "10.0.0.0/26", "fd00::/64")
		favourite, _ := alone.Allocate(owner, family)
		key := owner + string(family)
		if address, ok := first[key]; ok {
			p.Release(address)
			delete(first, key)
			delete(held, address)
			continue
		}
		address, err := p.Allocate(owner, family)
		if err != nil {
			t.Fatal(err)
		}
		if held[address] != "" {
			t.Fatalf("%s is of %s and of %s", address, held[address], key)
		}
		if held[favourite] == "" && address != favourite {
			t.Fatalf("%s got %s, though %s is free", key, address, favourite)
		}
		first[key], held[address] = address, key
	}
}
