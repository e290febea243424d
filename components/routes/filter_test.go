package routes

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"
)

func fakeFilter() (*packetFilter, map[string]*knftables.Fake) {
	fakes := map[string]*knftables.Fake{
		"ip":     knftables.NewFake(knftables.IPv4Family, filterTable),
		"ip6":    knftables.NewFake(knftables.IPv6Family, filterTable),
		"bridge": knftables.NewFake(knftables.BridgeFamily, filterTable),
	}
	return &packetFilter{ip: fakes["ip"], ip6: fakes["ip6"], bridge: fakes["bridge"]}, fakes
}

func TestTranslation(t *testing.T) {
	me, other := node("me", "10.244.0.0/24", "10.0.0.1"), node("a", "10.244.1.0/24", "10.0.0.2")
	me.Spec.PodCIDRs = []string{"10.244.0.0/24", "fd00:0:0:1::/64"}
	other.Status.Addresses = append(other.Status.Addresses, v1.NodeAddress{Type: v1.NodeExternalIP, Address: "1.2.3.4"})
	wanted := WantedTranslation([]*v1.Node{me, other}, "me")
	if got := len(wanted.Pods); got != 2 {
		t.Errorf("%d pod CIDRs, want 2", got)
	}
	for _, want := range []string{"10.244.0.0/24", "10.244.1.0/24", "10.0.0.1/32", "10.0.0.2/32", "fd00:0:0:1::/64"} {
		if !slices.Contains(wanted.Cluster, netip.MustParsePrefix(want)) {
			t.Errorf("the cluster's ranges lack %s: %v", want, wanted.Cluster)
		}
	}
	if slices.Contains(wanted.Cluster, netip.MustParsePrefix("1.2.3.4/32")) {
		t.Error("an external address is inside the cluster")
	}
}

func TestFilterIsWrittenAndKept(t *testing.T) {
	filter, fakes := fakeFilter()
	wanted := WantedTranslation([]*v1.Node{node("me", "10.244.0.0/24", "10.0.0.1"),
		node("a", "10.244.1.0/24", "10.0.0.2")}, "me")
	apply := func() {
		t.Helper()
		if err := filter.Apply(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
	}
	has := func(family, text string, want bool) {
		t.Helper()
		if dump := fakes[family].Dump(); strings.Contains(dump, text) != want {
			t.Errorf("family %s: %q is %v:\n%s", family, text, !want, dump)
		}
	}
	apply()
	has("ip",
		"ip saddr { 10.244.0.0/24 } ip daddr != { 10.0.0.1/32, 10.0.0.2/32, 10.244.0.0/24, 10.244.1.0/24, 224.0.0.0/4 } "+
			"masquerade fully-random", true)
	has("ip6", "masquerade", false)
	has("bridge", "ether daddr", false)

	wanted.BridgeMAC = "02:42:00:00:00:01"
	apply()
	has("bridge", "meta pkttype set host ether daddr set 02:42:00:00:00:01", true)
	has("bridge", "nd-neighbor-advert", true)

	// What another program removed comes back, without a cause of ours.
	tx := fakes["ip"].NewTransaction()
	tx.Delete(&knftables.Table{})
	if err := fakes["ip"].Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	apply()
	has("ip", "masquerade", true)

	// A node whose range was taken away leaves nothing behind.
	wanted.Pods, wanted.BridgeMAC = nil, ""
	apply()
	has("ip", "masquerade", false)
	has("bridge", "ether daddr", false)
}
