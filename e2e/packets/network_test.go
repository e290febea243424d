// Package packets sends packets through nodes that kube-proxy and node-routes set up, which run here as on nodes but
// for the API server. Nodes, their pods and the world outside are network namespaces.
package packets

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"quintet.dev/quintet/internal/netnstest"
)

// targetPort is where pods, nodes and the world outside answer.
const targetPort = 8080

// addresses are one of each family.
type addresses [2]netip.Addr

// host is a network namespace that answers with its name and the client's address.
type host struct {
	namespace, name string
	ips             addresses
}

func (h *host) port(family int) netip.AddrPort { return netip.AddrPortFrom(h.ips[family], targetPort) }

// pod hangs on its node's bridge.
type pod struct {
	host
	node *node
}

// node has a bridge for its pods, as Docker makes it: ports of it don't send frames back to where they came from.
type node struct {
	host
	number int
	bridge addresses // its addresses to its pods
}

// network is two nodes on a link, with two pods and one. Outside has another address behind the link, and routes to
// nodes alone, not to their pods.
type network struct {
	prefix       string
	node1, node2 *node
	a, b, c      *pod // a and b are on node 1, and c on node 2
	outside      *host
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{prefix: fmt.Sprintf("pkt%d", os.Getpid())}
	n.outside = n.host(t, "outside", "192.0.2.1", "2001:db8::1")
	netnstest.IP(t, n.outside.namespace, "addr add 192.0.2.1/32 dev lo", "addr add 2001:db8::1/128 dev lo nodad",
		"link add link0 type bridge", "link set link0 up", "addr add 172.31.0.254/24 dev link0",
		"addr add fd01::fe/64 dev link0 nodad")
	n.outside.answer(t)
	n.node1, n.node2 = n.addNode(t, 1), n.addNode(t, 2)
	n.a, n.b, n.c = n.addPod(t, n.node1, "a", 10), n.addPod(t, n.node1, "b", 11), n.addPod(t, n.node2, "c", 10)
	return n
}

// host makes a namespace whose addresses are the caller's to add, before answer.
func (n *network) host(t *testing.T, name, four, six string) *host {
	t.Helper()
	h := &host{n.prefix + "-" + name, name, addresses{netip.MustParseAddr(four), netip.MustParseAddr(six)}}
	netnstest.Add(t, h.namespace)
	return h
}

// answer has a host answer at its addresses, from which datagrams of a host with several of them come then, too.
func (h *host) answer(t *testing.T) {
	t.Helper()
	netnstest.Serve(t, h.namespace, h.name, targetPort, h.ips[:]...)
}

func (n *network) addNode(t *testing.T, number int) *node {
	t.Helper()
	four, six := fmt.Sprintf("172.31.0.%d", number), fmt.Sprintf("fd01::%d", number)
	bridge := []string{fmt.Sprintf("10.244.%d.1", number), fmt.Sprintf("fd00:244:%d::1", number)}
	h := n.host(t, fmt.Sprintf("node%d", number), four, six)
	netnstest.IP(t, h.namespace,
		"link add eth0 type veth peer name "+h.name+" netns "+n.outside.namespace, "link set eth0 up",
		"addr add "+four+"/24 dev eth0", "addr add "+six+"/64 dev eth0 nodad",
		fmt.Sprintf("link add cbr0 address 02:00:00:00:00:0%d type bridge", number), "link set cbr0 up",
		"addr add "+bridge[0]+"/24 dev cbr0", "addr add "+bridge[1]+"/64 dev cbr0 nodad")
	netnstest.IP(t, n.outside.namespace, "link set "+h.name+" master link0 up")
	netnstest.IP(t, h.namespace, "route add default via 172.31.0.254", "route add default via fd01::fe")
	h.answer(t)
	return &node{*h, number, addresses{netip.MustParseAddr(bridge[0]), netip.MustParseAddr(bridge[1])}}
}

func (n *network) addPod(t *testing.T, on *node, name string, number int) *pod {
	t.Helper()
	four, six := fmt.Sprintf("10.244.%d.%d", on.number, number), fmt.Sprintf("fd00:244:%d::%d", on.number, number)
	h := n.host(t, name, four, six)
	netnstest.IP(t, on.namespace, "link add veth-"+name+" type veth peer name eth0 netns "+h.namespace,
		"link set veth-"+name+" master cbr0 up")
	netnstest.IP(t, h.namespace, "link set eth0 up", "addr add "+four+"/24 dev eth0",
		"addr add "+six+"/64 dev eth0 nodad", "route add default via "+on.bridge[0].String(),
		"route add default via "+on.bridge[1].String())
	h.answer(t)
	return &pod{*h, on}
}
