package routes

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/internal/nftcheck"
	"quintet.dev/quintet/internal/nftcheck/nftchecktest"
)

func fakeFilter() (*packetFilter, *knftables.Fake) {
	fake := knftables.NewFake("", "")
	return &packetFilter{nft: fake, tables: tables(func(_ uint8, family knftables.Family) nftcheck.Kernel {
		return &nftchecktest.Kernel{Fake: fake, Family: family, Name: filterTable}
	})}, fake
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
	filter, fake := fakeFilter()
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
		dump := fake.Dump()
		found := slices.ContainsFunc(strings.Split(dump, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "add rule "+family+" ") && strings.Contains(line, text)
		})
		if found != want {
			t.Errorf("family %s: %q is %v:\n%s", family, text, found, dump)
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
	tx := fake.NewTransaction()
	tx.Delete(&knftables.Table{Family: knftables.IPv4Family, Name: filterTable})
	if err := fake.Run(t.Context(), tx); err != nil {
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

// TestFilterWritesOnlyChanges: a start of nft for each heartbeat of a node would cost more than the node's network
// does.
func TestFilterWritesOnlyChanges(t *testing.T) {
	filter, fake := fakeFilter()
	wanted := WantedTranslation([]*v1.Node{node("me", "10.244.0.0/24", "10.0.0.1")}, "me")
	apply := func() string {
		t.Helper()
		fake.LastTransaction = nil
		if err := filter.Apply(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		if fake.LastTransaction == nil {
			return ""
		}
		return fake.LastTransaction.String()
	}
	if apply() == "" {
		t.Fatal("nothing was written")
	}
	if got := apply(); got != "" {
		t.Errorf("written without a change:\n%s", got)
	}
	wanted.BridgeMAC = "02:42:00:00:00:01"
	if got := apply(); strings.Contains(got, "masquerade") || !strings.Contains(got, "prerouting") {
		t.Errorf("the bridge's table alone changed, written was:\n%s", got)
	}
}
