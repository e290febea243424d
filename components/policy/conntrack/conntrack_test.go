package conntrack

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestFilter(t *testing.T) {
	ip := net.ParseIP
	flow := &netlink.ConntrackFlow{
		Forward: netlink.IPTuple{SrcIP: ip("10.244.1.2"), DstIP: ip("10.96.0.1")},
		Reverse: netlink.IPTuple{SrcIP: ip("10.244.2.3"), DstIP: ip("172.31.0.1")},
	}
	for addr, want := range map[string]bool{
		"10.244.1.2": true, "10.96.0.1": true, "10.244.2.3": true, "172.31.0.1": true, "10.244.1.3": false,
		"fd00::1": false,
	} {
		if got := (filter{netip.MustParseAddr(addr): {}}).MatchConntrackFlow(flow); got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
}
