package nft

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/internal/netnstest"
)

// Addresses of the network. Pods of this node have a namespace each; the rest is one namespace beyond the node.
const (
	localPods, remotePods = 6, 6
	nodeIP, peerNodeIP    = "172.31.0.1", "172.31.0.2"
	externalIP            = "192.0.2.1"
)

func podIPs(node, i int) []netip.Addr {
	return []netip.Addr{
		netip.AddrFrom4([4]byte{10, 244, byte(node), byte(10 + i)}),
		netip.MustParseAddr(fmt.Sprintf("fd00:244:%d::%d", node, 10+i)),
	}
}

// network is a node with pods on its bridge, and the world beyond.
type network struct {
	prefix string
	// at is the namespace that has an address.
	at map[netip.Addr]string
	// flows counts UDP clients: each gets a source port of its own, as a port that is used again within conntrack's
	// timeout continues an established flow, which passes whatever the policies are now.
	flows atomic.Uint32
}

func (n *network) node() string   { return n.prefix + "-node" }
func (n *network) beyond() string { return n.prefix + "-beyond" }

// newNetwork makes namespaces that are removed when the test ends.
func newNetwork(t testing.TB) *network {
	t.Helper()
	n := &network{prefix: fmt.Sprintf("netpol%d", os.Getpid()), at: map[netip.Addr]string{}}
	netnstest.Add(t, n.node())
	netnstest.Add(t, n.beyond())
	netnstest.Sysctl(t, n.node(), "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.send_redirects=0",
		"net.ipv4.conf.default.send_redirects=0")
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil { // the module is loaded
		netnstest.Sysctl(t, n.node(), "net.bridge.bridge-nf-call-iptables=0", "net.bridge.bridge-nf-call-ip6tables=0")
	}
	netnstest.IP(t, n.node(),
		"link add cbr0 address 02:00:00:00:00:01 type bridge", "link set cbr0 up",
		"addr add 10.244.1.1/24 dev cbr0", "addr add fd00:244:1::1/64 dev cbr0 nodad",
		"link add eth0 type veth peer name eth0 netns "+n.beyond(), "link set eth0 up",
		"addr add "+nodeIP+"/24 dev eth0", "addr add fd01::1/64 dev eth0 nodad",
	)
	netnstest.IP(t, n.beyond(), "link set eth0 up", "addr add "+peerNodeIP+"/24 dev eth0", "addr add fd01::2/64 dev eth0 nodad",
		"addr add "+externalIP+"/32 dev lo", "route add 10.244.1.0/24 via "+nodeIP,
		"route add fd00:244:1::/64 via fd01::1")
	netnstest.IP(t, n.node(), "route add 10.244.2.0/24 via "+peerNodeIP, "route add 192.0.2.0/24 via "+peerNodeIP,
		"route add fd00:244:2::/64 via fd01::2")
	for i := range localPods {
		name := fmt.Sprintf("%s-pod%d", n.prefix, i)
		netnstest.Add(t, name)
		netnstest.IP(t, n.node(), fmt.Sprintf("link add veth%d type veth peer name eth0 netns %s", i, name),
			fmt.Sprintf("link set veth%d master cbr0 up", i))
		four, six := podIPs(1, i)[0], podIPs(1, i)[1]
		netnstest.IP(t, name, "link set eth0 up",
			fmt.Sprintf("addr add %s/24 dev eth0", four), fmt.Sprintf("addr add %s/64 dev eth0 nodad", six),
			"route add default via 10.244.1.1", "route add default via fd00:244:1::1")
		n.at[four], n.at[six] = name, name
	}
	for i := range remotePods {
		four, six := podIPs(2, i)[0], podIPs(2, i)[1]
		netnstest.IP(t, n.beyond(), fmt.Sprintf("addr add %s/32 dev lo", four),
			fmt.Sprintf("addr add %s/128 dev lo nodad", six))
		n.at[four], n.at[six] = n.beyond(), n.beyond()
	}
	n.at[netip.MustParseAddr(externalIP)] = n.beyond()
	// As node-routes has it: frames between pods of the node are routed.
	netnstest.NFT(t, n.node(), `add table bridge lift
add chain bridge lift prerouting { type filter hook prerouting priority -300 ; }
add rule bridge lift prerouting meta pkttype { broadcast, multicast } accept
add rule bridge lift prerouting icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-redirect } accept
add rule bridge lift prerouting ether type { ip, ip6 } meta pkttype set host ether daddr set 02:00:00:00:00:01
`)
	return n
}

// serve answers at all pods' addresses, and at the external one, until the test ends.
func (n *network) serve(t testing.TB, tcp, udp []int32) {
	t.Helper()
	for addr, namespace := range n.at {
		if err := netnstest.In(namespace, func() error {
			for _, port := range tcp {
				listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, uint16(port))))
				if err != nil {
					return err
				}
				t.Cleanup(func() { _ = listener.Close() })
				go answerTCP(listener)
			}
			for _, port := range udp {
				conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, uint16(port))))
				if err != nil {
					return err
				}
				t.Cleanup(func() { _ = conn.Close() })
				go answerUDP(conn)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func answerTCP(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte("."))
		_ = conn.Close()
	}
}

func answerUDP(conn *net.UDPConn) {
	buffer := make([]byte, 16)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		_, _ = conn.WriteToUDPAddrPort(buffer[:n], from)
	}
}

// reaches tells whether an answer comes from the address and port, within the timeout. from is an address of the
// client's; the zero value lets the kernel choose.
func (n *network) reaches(
	namespace string, from netip.Addr, to netip.AddrPort, protocol v1.Protocol, timeout time.Duration,
) (reached bool, err error) {
	err = netnstest.In(namespace, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		dialer := net.Dialer{}
		if from.IsValid() {
			dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
			if protocol == v1.ProtocolUDP {
				dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, n.sourcePort()))
			}
		}
		conn, err := dialer.DialContext(ctx, strings.ToLower(string(protocol)), to.String())
		if err != nil {
			if ctx.Err() != nil || os.IsTimeout(err) {
				return nil
			}
			return err
		}
		defer conn.Close()
		if protocol == v1.ProtocolUDP {
			if _, err := conn.Write([]byte("?")); err != nil {
				return err
			}
		}
		deadline, _ := ctx.Deadline()
		_ = conn.SetReadDeadline(deadline)
		_, err = io.ReadFull(conn, make([]byte, 1))
		if reached = err == nil; err != nil && !os.IsTimeout(err) {
			return err
		}
		return nil
	})
	return reached, err
}

// sourcePort is a port that no UDP client used before.
func (n *network) sourcePort() uint16 { return uint16(20_000 + n.flows.Add(1)%40_000) }

// inNamespaceOf runs transactions in a network namespace.
type inNamespaceOf struct {
	knftables.Interface
	name string
}

func (n inNamespaceOf) Run(ctx context.Context, tx *knftables.Transaction) error {
	return netnstest.In(n.name, func() error { return n.Interface.Run(ctx, tx) })
}
