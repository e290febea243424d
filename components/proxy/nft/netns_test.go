package nft

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"quintet.dev/quintet/internal/netnstest"
)

// addresses of one family in the test network.
type addresses struct {
	// node is the node's address to the world, client and client2 belong to one machine beyond it.
	node, client, client2 netip.Addr
	// pod are the backends, gateway the node's address to each.
	pod, gateway [2]netip.Addr
	pods         string // range of all pods
	loopback     netip.Addr
	// service and external are routed nowhere: only the rules know them.
	service, external netip.Addr
}

func addresses4() addresses {
	ip := netip.MustParseAddr
	return addresses{
		node: ip("172.31.7.1"), client: ip("172.31.7.2"), client2: ip("172.31.7.3"),
		pod:     [2]netip.Addr{ip("10.244.1.10"), ip("10.244.2.10")},
		gateway: [2]netip.Addr{ip("10.244.1.1"), ip("10.244.2.1")},
		pods:    "10.244.0.0/16", loopback: ip("127.0.0.1"), service: ip("10.96.0.7"), external: ip("192.0.2.7"),
	}
}

func addresses6() addresses {
	ip := netip.MustParseAddr
	return addresses{
		node: ip("fd01::1"), client: ip("fd01::2"), client2: ip("fd01::3"),
		pod:     [2]netip.Addr{ip("fd00:244:1::10"), ip("fd00:244:2::10")},
		gateway: [2]netip.Addr{ip("fd00:244:1::1"), ip("fd00:244:2::1")},
		pods:    "fd00:244::/32", loopback: ip("::1"), service: ip("fd00:96::7"), external: ip("2001:db8::7"),
	}
}

// network is a node that routes between two backends and a client, each in a network namespace.
type network struct{ node, client, pod0, pod1 string }

// newNetwork makes the namespaces, and removes them when the test ends.
func newNetwork(t *testing.T) *network {
	t.Helper()
	prefix := fmt.Sprintf("svc%d-%s", os.Getpid(), hashed(t.Name()))
	n := &network{prefix + "-node", prefix + "-client", prefix + "-pod0", prefix + "-pod1"}
	for _, name := range []string{n.node, n.client, n.pod0, n.pod1} {
		netnstest.Add(t, name)
	}
	// Rejections are ICMP errors, whose rate the kernel limits by default.
	netnstest.Sysctl(t, n.node, "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
		"net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	four, six := addresses4(), addresses6()
	n.wire(t, "eth0", n.client, four.node, four.client, six.node, six.client)
	// The world is behind the client, which forwards nothing: what no rule takes gets no answer.
	netnstest.IP(t, n.node, "route add default via "+four.client.String(), "route add default via "+six.client.String())
	netnstest.IP(t, n.client, "addr add "+four.client2.String()+"/24 dev eth0",
		"addr add "+six.client2.String()+"/64 dev eth0 nodad")
	for i, pod := range []string{n.pod0, n.pod1} {
		n.wire(t, fmt.Sprintf("veth%d", i), pod, four.gateway[i], four.pod[i], six.gateway[i], six.pod[i])
		netnstest.Serve(t, pod, fmt.Sprintf("pod%d", i), 8080)
	}
	return n
}

// wire connects the node's interface with eth0 of another namespace, which sends everything to the node.
func (n *network) wire(t *testing.T, dev, other string, node4, other4, node6, other6 netip.Addr) {
	t.Helper()
	netnstest.IP(t, n.node, "link add "+dev+" type veth peer name eth0 netns "+other, "link set "+dev+" up")
	netnstest.IP(t, other, "link set eth0 up")
	netnstest.IP(t, n.node, "addr add "+node4.String()+"/24 dev "+dev, "addr add "+node6.String()+"/64 dev "+dev+" nodad")
	netnstest.IP(t, other, "addr add "+other4.String()+"/24 dev eth0", "addr add "+other6.String()+"/64 dev eth0 nodad",
		"route add default via "+node4.String(), "route add default via "+node6.String())
}
