package nft

import (
	"net/netip"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/proxy/model"
	"quintet.dev/quintet/internal/netnstest"
)

// externalTrafficPolicy Local keeps the client's address and the traffic on the node; the node itself and its pods
// may reach all endpoints.
func TestPacketsExternalLocal(t *testing.T) {
	policy := func(p *model.ServicePort) { p.ExternalLocal = true }
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t)
		b.sync(t, b.service([]int{0, 1}, exposed, policy))
		for range 20 {
			b.expect(t, b.net.client, b.nodePort(), "pod0 "+b.ip.client.String())
		}
		if got := b.answers(t, b.net.node, "tcp", b.nodePort(), 40); !slices.Equal(got, []string{"pod0", "pod1"}) {
			t.Errorf("from the node: got answers of %v", got)
		}
		b.sync(t, b.service([]int{1}, exposed, policy))
		b.expect(t, b.net.client, b.nodePort(), netnstest.NoAnswer)
		b.expect(t, b.net.pod0, b.nodePort(), "pod1 "+b.ip.pod[0].String())
		b.expect(t, b.net.node, b.nodePort(), "pod1 "+b.ip.gateway[1].String())
		b.sync(t, b.service(nil, exposed, policy))
		b.expect(t, b.net.client, b.nodePort(), netnstest.Refused)
	})
}

// internalTrafficPolicy Local drops what has no endpoint on the node, and does nothing about node ports.
func TestPacketsInternalLocal(t *testing.T) {
	policy := func(p *model.ServicePort) { p.InternalLocal = true }
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t)
		b.sync(t, b.service([]int{0, 1}, exposed, policy))
		if got := b.answers(t, b.net.pod1, "tcp", b.clusterIP(), 20); !slices.Equal(got, []string{"pod0"}) {
			t.Errorf("got answers of %v", got)
		}
		if got := b.answers(t, b.net.client, "tcp", b.nodePort(), 40); !slices.Equal(got, []string{"pod0", "pod1"}) {
			t.Errorf("by the node port: got answers of %v", got)
		}
		b.sync(t, b.service([]int{1}, exposed, policy))
		for _, from := range []string{b.net.client, b.net.pod0, b.net.node} {
			b.expect(t, from, b.clusterIP(), netnstest.NoAnswer)
		}
		b.expect(t, b.net.client, b.nodePort(), "pod1 "+b.ip.gateway[1].String())
	})
}

// A client stays with its endpoint while other endpoints come and go, and leaves it when it is gone.
func TestPacketsAffinity(t *testing.T) {
	sticky := func(p *model.ServicePort) { p.AffinitySeconds = 600 }
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t)
		b.sync(t, b.service([]int{0, 1}, exposed, sticky))
		first := b.answers(t, b.net.client, "tcp", b.clusterIP(), 20)
		if len(first) != 1 {
			t.Fatalf("got answers of %v", first)
		}
		if got := b.answers(t, b.net.client, "tcp", b.nodePort(), 5); !slices.Equal(got, first) {
			t.Errorf("by the node port: got answers of %v, want %v", got, first)
		}
		stays := 0
		if first[0] == "pod1" {
			stays = 1
		}
		b.sync(t, b.service([]int{stays}, exposed, sticky))
		b.sync(t, b.service([]int{0, 1}, exposed, sticky))
		if got := b.answers(t, b.net.client, "tcp", b.clusterIP(), 20); !slices.Equal(got, first) {
			t.Errorf("after another endpoint came back: got answers of %v, want %v", got, first)
		}
		for range 5 { // by chance, it would find the same endpoint once in 32 times
			b.table.Invalidate()
			b.sync(t)
			if got := b.answers(t, b.net.client, "tcp", b.clusterIP(), 1); !slices.Equal(got, first) {
				t.Errorf("after a full sync: got answers of %v, want %v", got, first)
			}
		}
		b.sync(t, b.service([]int{1 - stays}, exposed, sticky))
		if got := b.answers(t, b.net.client, "tcp", b.clusterIP(), 3); slices.Equal(got, first) || len(got) != 1 {
			t.Errorf("after its endpoint was gone: got answers of %v", got)
		}
	})
}

// Traffic to an address in a range of cluster IPs that no Service has is dropped, wherever it would be routed to.
func TestPacketsUnallocatedClusterIP(t *testing.T) {
	forFamilies(t, func(t *testing.T, b *bench) {
		unallocated := netip.AddrPortFrom(b.ip.service.Next(), servicePort)
		netnstest.IP(t, b.net.client, "addr add "+unallocated.Addr().String()+" dev lo")
		b.install(t)
		b.sync(t, b.service([]int{0}))
		b.expect(t, b.net.node, unallocated, netnstest.Refused) // by the client
		config := b.table.config
		inner := netip.PrefixFrom(b.ip.service, b.ip.service.BitLen()-8)
		outer := netip.PrefixFrom(b.ip.service, b.ip.service.BitLen()-16)
		config.ServiceCIDRs = []netip.Prefix{outer, inner, netip.MustParsePrefix("192.168.0.0/16")}
		if !b.table.Reconfigure(config) {
			t.Fatal("ranges of cluster IPs change nothing")
		}
		b.sync(t)
		for _, from := range []string{b.net.node, b.net.pod0} {
			b.expect(t, from, unallocated, netnstest.NoAnswer)
			b.expect(t, from, b.unknownPort(), netnstest.Refused)
		}
		b.expect(t, b.net.pod1, b.clusterIP(), "pod0 "+b.ip.pod[1].String())
	})
}

// Source ranges limit load-balancer addresses, and nothing else of the Service.
func TestPacketsSourceRanges(t *testing.T) {
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t)
		b.sync(t, b.service([]int{1}, exposed, func(p *model.ServicePort) {
			p.LoadBalancerIPs = []netip.Addr{b.ip.external}
			p.SourceRanges = []netip.Prefix{netip.PrefixFrom(b.ip.client, b.ip.client.BitLen())}
			p.SourceRangesSet = true
		}))
		answered := "pod1 " + b.ip.gateway[1].String()
		b.expect(t, b.net.client, b.externalIP(), answered)
		if got := netnstest.Ask(t, b.net.client, "tcp", b.ip.client2, b.externalIP(), netnstest.SilenceTimeout); got != netnstest.NoAnswer {
			t.Errorf("from a source outside of the ranges: got %q", got)
		}
		if got := netnstest.Ask(t, b.net.client, "tcp", b.ip.client2, b.nodePort(), netnstest.AnswerTimeout); got != answered {
			t.Errorf("to the node port: got %q", got)
		}
	})
}

func TestPacketsUDP(t *testing.T) {
	udp := func(p *model.ServicePort) { p.Key.Protocol = v1.ProtocolUDP }
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t)
		b.sync(t, b.service([]int{0, 1}, exposed, udp))
		for _, to := range []netip.AddrPort{b.clusterIP(), b.nodePort()} {
			if got := b.answers(t, b.net.client, "udp", to, 40); !slices.Equal(got, []string{"pod0", "pod1"}) {
				t.Errorf("to %s: got answers of %v", to, got)
			}
		}
		b.expect(t, b.net.client, b.clusterIP(), netnstest.Refused) // the port of TCP
		b.sync(t, b.service(nil, exposed, udp))
		if got := netnstest.Ask(t, b.net.client, "udp", netip.Addr{}, b.clusterIP(), netnstest.AnswerTimeout); got != netnstest.Refused {
			t.Errorf("without an endpoint: got %q", got)
		}
	})
}
