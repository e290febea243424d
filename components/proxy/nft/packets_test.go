package nft

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/proxy/model"
	"quintet.dev/quintet/internal/netnstest"
)

const (
	servicePort = 80
	nodePort    = 30080
)

// bench is a node with the rules of one family.
type bench struct {
	net    *network
	ip     addresses
	family v1.IPFamily
	table  *Table
}

// forFamilies runs a test in a network of its own for each family.
func forFamilies(t *testing.T, test func(*testing.T, *bench)) {
	t.Parallel()
	for family, of := range map[v1.IPFamily]addresses{v1.IPv4Protocol: addresses4(), v1.IPv6Protocol: addresses6()} {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			test(t, &bench{net: newNetwork(t), ip: of, family: family})
		})
	}
}

// install makes the table with a change of its configuration.
func (b *bench) install(t *testing.T, change ...func(*Config)) {
	t.Helper()
	source := keyword(b.family) + " saddr "
	config := Config{
		Family: b.family, MasqueradeBit: 14, LocalTraffic: source + b.ip.pods,
		NotLocalTraffic: source + "!= " + b.ip.pods,
		NodePortIPs:     []netip.Addr{b.ip.node, b.ip.loopback},
	}
	for _, f := range change {
		f(&config)
	}
	if err := netnstest.In(b.net.node, func() error {
		rules, kernel, err := Open(b.family)
		b.table = New(config, rules, kernel)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) sync(t *testing.T, ports ...model.ServicePort) {
	t.Helper()
	if err := netnstest.In(b.net.node, func() error {
		_, err := b.table.Sync(t.Context(), ports, nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// service is a Service's port whose endpoints are those backends; pod 0 is taken for a pod of the node.
func (b *bench) service(pods []int, change ...func(*model.ServicePort)) model.ServicePort {
	p := model.ServicePort{
		Key: model.PortKey{
			NamespacedName: types.NamespacedName{Namespace: "ns", Name: "svc"}, Protocol: v1.ProtocolTCP,
			Family: b.family,
		},
		ClusterIP: b.ip.service, Port: servicePort, HasAnyEndpoint: len(pods) > 0,
	}
	for _, i := range pods {
		p.ClusterEndpoints = append(p.ClusterEndpoints, model.Endpoint{IP: b.ip.pod[i], Port: 8080, Local: i == 0})
	}
	for _, f := range change {
		f(&p)
	}
	local(&p)
	return p
}

func exposed(p *model.ServicePort) { p.NodePort = nodePort }

// clusterIP, nodePort, external and unknownPort are what clients connect to.
func (b *bench) clusterIP() netip.AddrPort   { return netip.AddrPortFrom(b.ip.service, servicePort) }
func (b *bench) nodePort() netip.AddrPort    { return netip.AddrPortFrom(b.ip.node, nodePort) }
func (b *bench) externalIP() netip.AddrPort  { return netip.AddrPortFrom(b.ip.external, servicePort) }
func (b *bench) unknownPort() netip.AddrPort { return netip.AddrPortFrom(b.ip.service, servicePort+1) }

// expect connects once by TCP. The client has several addresses and uses its first.
func (b *bench) expect(t *testing.T, from string, to netip.AddrPort, want string) {
	t.Helper()
	timeout := netnstest.AnswerTimeout
	if want == netnstest.NoAnswer {
		timeout = netnstest.SilenceTimeout
	}
	var source netip.Addr
	if from == b.net.client {
		source = b.ip.client
	}
	if got := netnstest.Ask(t, from, "tcp", source, to, timeout); got != want {
		t.Errorf("from %s to %s: got %q, want %q", from, to, got, want)
	}
}

// answers collects the different answers of many connections, without the client's address.
func (b *bench) answers(t *testing.T, from, protocol string, to netip.AddrPort, connections int) []string {
	t.Helper()
	var names []string
	for range connections {
		name, _, _ := strings.Cut(netnstest.Ask(t, from, protocol, netip.Addr{}, to, netnstest.AnswerTimeout), " ")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Connections to a cluster IP reach all endpoints. Pods keep their address, others get the node's.
func TestPacketsToClusterIP(t *testing.T) {
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t)
		b.sync(t, b.service([]int{0, 1}))
		for _, from := range []string{b.net.pod0, b.net.client, b.net.node} {
			if got := b.answers(t, from, "tcp", b.clusterIP(), 40); !slices.Equal(got, []string{"pod0", "pod1"}) {
				t.Errorf("from %s: got answers of %v", from, got)
			}
		}
		b.sync(t, b.service([]int{1}))
		b.expect(t, b.net.pod0, b.clusterIP(), "pod1 "+b.ip.pod[0].String())
		b.expect(t, b.net.client, b.clusterIP(), "pod1 "+b.ip.gateway[1].String())
		b.expect(t, b.net.client, b.unknownPort(), netnstest.Refused)
		b.expect(t, b.net.pod0, b.unknownPort(), netnstest.Refused)
		b.expect(t, b.net.node, b.unknownPort(), netnstest.Refused)
	})
}

func TestPacketsMasqueradeAll(t *testing.T) {
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t, func(c *Config) { c.MasqueradeAll = true })
		b.sync(t, b.service([]int{1}))
		b.expect(t, b.net.pod0, b.clusterIP(), "pod1 "+b.ip.gateway[1].String())
	})
}

// Where pods are identified by their interfaces, their addresses do not matter.
func TestPacketsLocalByInterface(t *testing.T) {
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t, func(c *Config) { c.LocalTraffic, c.NotLocalTraffic = `iifname "veth*"`, `iifname != "veth*"` })
		b.sync(t, b.service([]int{1}))
		b.expect(t, b.net.pod0, b.clusterIP(), "pod1 "+b.ip.pod[0].String())
		b.expect(t, b.net.client, b.clusterIP(), "pod1 "+b.ip.gateway[1].String())
	})
}

// A pod that is its Service's endpoint reaches itself, if by the node's address.
func TestPacketsHairpin(t *testing.T) {
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t)
		for _, affinity := range []int{0, 60} {
			b.sync(t, b.service([]int{0}, exposed, func(p *model.ServicePort) { p.AffinitySeconds = affinity }))
			b.expect(t, b.net.pod0, b.clusterIP(), "pod0 "+b.ip.gateway[0].String())
			b.expect(t, b.net.pod0, b.nodePort(), "pod0 "+b.ip.gateway[0].String())
		}
	})
}

// Node ports are served at the node's address alone, and to pods as well.
func TestPacketsToNodePort(t *testing.T) {
	forFamilies(t, func(t *testing.T, b *bench) {
		for _, all := range []bool{false, true} {
			b.install(t, func(c *Config) { c.AllNodePortIPs = all })
			b.sync(t, b.service([]int{1}, exposed))
			b.expect(t, b.net.client, b.nodePort(), "pod1 "+b.ip.gateway[1].String())
			b.expect(t, b.net.pod0, b.nodePort(), "pod1 "+b.ip.gateway[1].String())
			b.expect(t, b.net.node, b.nodePort(), "pod1 "+b.ip.gateway[1].String())
			b.expect(t, b.net.node, netip.AddrPortFrom(b.ip.loopback, nodePort), netnstest.Refused)
			other := netnstest.Refused // an address that serves no node ports
			if all {
				other = "pod1 " + b.ip.gateway[1].String()
			}
			b.expect(t, b.net.pod0, netip.AddrPortFrom(b.ip.gateway[0], nodePort), other)
		}
	})
}

// Without any endpoint, connections are rejected at once.
func TestPacketsRejected(t *testing.T) {
	forFamilies(t, func(t *testing.T, b *bench) {
		b.install(t)
		outside := func(p *model.ServicePort) { p.ExternalIPs = []netip.Addr{b.ip.external} }
		b.sync(t, b.service(nil, exposed, outside))
		for _, from := range []string{b.net.client, b.net.pod0, b.net.node} {
			b.expect(t, from, b.clusterIP(), netnstest.Refused)
			b.expect(t, from, b.nodePort(), netnstest.Refused)
		}
		b.expect(t, b.net.client, b.externalIP(), netnstest.Refused)
		b.sync(t, b.service([]int{1}, exposed, outside))
		b.expect(t, b.net.client, b.externalIP(), "pod1 "+b.ip.gateway[1].String())
		b.expect(t, b.net.client, b.clusterIP(), "pod1 "+b.ip.gateway[1].String())
	})
}
