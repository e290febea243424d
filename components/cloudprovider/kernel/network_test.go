package kernel

import (
	"net/netip"
	"strings"
	"testing"
)

var network = &Network{
	Interface: "eth0",
	Prefixes:  []netip.Prefix{netip.MustParsePrefix("10.0.1.2/24"), netip.MustParsePrefix("fd00::2/64")},
	Gateways:  []netip.Addr{netip.MustParseAddr("10.0.1.1")},
}

func TestReserved(t *testing.T) {
	for address, want := range map[string]bool{
		"10.0.1.0": true, "10.0.1.1": true, "10.0.1.2": true, "10.0.1.3": false, "10.0.1.254": false,
		"10.0.1.255": true,
		"fd00::":     true, "fd00::2": true, "fd00::3": false, "fd00::ffff:ffff:ffff:ffff": false,
	} {
		if got := network.Reserved(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestContains(t *testing.T) {
	for pool, want := range map[string]bool{
		"10.0.1.192/26": true, "10.0.1.0/24": true, "10.0.0.0/16": false, "10.0.2.0/26": false,
		"fd00::f00/120": true, "fd01::/120": false,
	} {
		err := network.Contains(netip.MustParsePrefix(pool))
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), pool) {
			t.Errorf("%s: %v", pool, err)
		}
	}
}

func TestOnLink(t *testing.T) {
	for address, want := range map[string]bool{"10.0.1.9": true, "10.0.2.9": false, "fd00::9": true, "fd01::9": false} {
		if got := network.OnLink(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
