package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// TestBlocks: members, addresses that Docker chooses and pools don't overlap within a block, in either family.
func TestBlocks(t *testing.T) {
	s := block(260, true) // there are 256
	if s.v4.String() != "10.213.4.0/24" || s.v6.String() != "fd00:10:213:4::/64" {
		t.Errorf("blocks %s, %s", s.v4, s.v6)
	}
	if got := fmt.Sprint(s.member(0), s.member(maxMembers-1), s.gateway()); got !=
		"[10.213.4.2 fd00:10:213:4::2] [10.213.4.175 fd00:10:213:4::af] 10.213.4.1" {
		t.Errorf("members %s", got)
	}
	for i, config := range s.ipam().Config {
		pool := s.pools()[i]
		for n := range maxMembers {
			if ip := s.member(n)[i]; config.IPRange.Contains(ip) || pool.Contains(ip) || !config.Subnet.Contains(ip) {
				t.Errorf("member %d is at %s", n, ip)
			}
		}
		if config.IPRange.Overlaps(pool) || !config.Subnet.Contains(pool.Addr()) ||
			!config.Subnet.Contains(config.IPRange.Addr()) || config.Gateway == s.member(0)[i] {
			t.Errorf("range %s, pool %s, gateway %s", config.IPRange, pool, config.Gateway)
		}
	}
	single := block(1, false)
	if len(single.pools()) != 1 || len(single.member(0)) != 1 || len(single.ipam().Config) != 1 {
		t.Errorf("a cluster of IPv4 alone: %v, %v", single.pools(), single.member(0))
	}
}

// TestFree: a member that is added takes the first place that no container has.
func TestFree(t *testing.T) {
	s := block(0, true)
	taken := map[netip.Addr]bool{}
	for i := range maxMembers {
		got, err := s.free(taken)
		if err != nil || !slices.Equal(got, s.member(i)) {
			t.Fatalf("%d: %v, %v", i, got, err)
		}
		taken[got[0]] = true
	}
	if got, err := s.free(taken); err == nil {
		t.Errorf("%v in a full network", got)
	}
	delete(taken, s.member(7)[0])
	if got, err := s.free(taken); err != nil || got[0] != s.member(7)[0] {
		t.Errorf("after one left: %v, %v", got, err)
	}
}

func TestTakenSubnet(t *testing.T) {
	for err, want := range map[error]bool{
		errors.New("Pool overlaps with other one on this address space"):               true,
		errors.New("cannot create network: conflicts with network br-1"):               true,
		errors.New("permission denied"):                                                false,
		fmt.Errorf("network overlaps, and the caller gave up: %w", context.Canceled):   false,
		errors.New("invalid subnet 10.213.0.0/24 : it should be within the big block"): false,
	} {
		if got := taken(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
