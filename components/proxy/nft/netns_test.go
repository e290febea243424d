package nft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Outcomes of a connection.
const (
	refused  = "refused"
	noAnswer = "no answer"
)

const (
	// answerTimeout is for answers that must come: how busy the machine is doesn't matter.
	answerTimeout = 20 * time.Second
	// silenceTimeout is for answers that must not come.
	silenceTimeout = 300 * time.Millisecond
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
	if os.Geteuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	prefix := fmt.Sprintf("svc%d-%s", os.Getpid(), hashed(t.Name()))
	n := &network{prefix + "-node", prefix + "-client", prefix + "-pod0", prefix + "-pod1"}
	for _, name := range []string{n.node, n.client, n.pod0, n.pod1} {
		command(t, "ip netns add "+name)
		t.Cleanup(func() { command(t, "ip netns delete "+name) })
		command(t, "ip -n "+name+" link set lo up")
		command(t, "ip netns exec "+name+" sysctl -qw net.ipv6.conf.default.accept_dad=0")
	}
	// Rejections are ICMP errors, whose rate the kernel limits by default.
	command(t, "ip netns exec "+n.node+" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"+
		" net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0")
	four, six := addresses4(), addresses6()
	n.wire(t, "eth0", n.client, four.node, four.client, six.node, six.client)
	// The world is behind the client, which forwards nothing: what no rule takes gets no answer.
	command(t, "ip -n "+n.node+" route add default via "+four.client.String())
	command(t, "ip -n "+n.node+" -6 route add default via "+six.client.String())
	command(t, "ip -n "+n.client+" addr add "+four.client2.String()+"/24 dev eth0")
	command(t, "ip -n "+n.client+" addr add "+six.client2.String()+"/64 dev eth0 nodad")
	for i, pod := range []string{n.pod0, n.pod1} {
		n.wire(t, fmt.Sprintf("veth%d", i), pod, four.gateway[i], four.pod[i], six.gateway[i], six.pod[i])
		n.serve(t, pod, fmt.Sprintf("pod%d", i))
	}
	return n
}

// wire connects the node's interface with eth0 of another namespace, which sends everything to the node.
func (n *network) wire(t *testing.T, dev, other string, node4, other4, node6, other6 netip.Addr) {
	t.Helper()
	for _, line := range []string{
		"ip -n " + n.node + " link add " + dev + " type veth peer name eth0 netns " + other,
		"ip -n " + n.node + " link set " + dev + " up", "ip -n " + other + " link set eth0 up",
		"ip -n " + n.node + " addr add " + node4.String() + "/24 dev " + dev,
		"ip -n " + other + " addr add " + other4.String() + "/24 dev eth0",
		"ip -n " + n.node + " addr add " + node6.String() + "/64 dev " + dev + " nodad",
		"ip -n " + other + " addr add " + other6.String() + "/64 dev eth0 nodad",
		"ip -n " + other + " route add default via " + node4.String(),
		"ip -n " + other + " -6 route add default via " + node6.String(),
	} {
		command(t, line)
	}
}

func command(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// inNamespace calls f on a thread of a network namespace, which ends with the call.
func inNamespace(name string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread must not serve other goroutines
		done <- func() error {
			fd, err := unix.Open("/run/netns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("namespace %s: %w", name, err)
			}
			defer unix.Close(fd)
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("namespace %s: %w", name, err)
			}
			return f()
		}()
	}()
	return <-done
}

// serve answers on port 8080 of both protocols and families with the server's name and the client's address.
func (n *network) serve(t *testing.T, namespace, name string) {
	t.Helper()
	if err := inNamespace(namespace, func() error {
		listener, err := net.Listen("tcp", "[::]:8080")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = listener.Close() })
		go answerTCP(listener, name)
		conn, err := net.ListenPacket("udp", "[::]:8080")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = conn.Close() })
		go answerUDP(conn, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func answerTCP(listener net.Listener, name string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, answer(name, conn.RemoteAddr()))
		_ = conn.Close()
	}
}

func answerUDP(conn net.PacketConn, name string) {
	buffer := make([]byte, 16)
	for {
		_, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = conn.WriteTo([]byte(answer(name, from)), from)
	}
}

func answer(name string, from net.Addr) string {
	return name + " " + netip.MustParseAddrPort(from.String()).Addr().Unmap().String()
}

// ask connects once and returns the answer, refused, or noAnswer after the timeout.
func (n *network) ask(
	t *testing.T, namespace, protocol string, from netip.Addr, to netip.AddrPort, timeout time.Duration,
) (got string) {
	t.Helper()
	if err := inNamespace(namespace, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		var err error
		got, err = exchange(ctx, protocol, from, to)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			got = refused
		case err != nil && (ctx.Err() != nil || os.IsTimeout(err)):
			got = noAnswer
		default:
			return err
		}
		return nil
	}); err != nil {
		t.Fatalf("from %s to %s: %v", namespace, to, err)
	}
	return got
}

func exchange(ctx context.Context, protocol string, from netip.Addr, to netip.AddrPort) (string, error) {
	dialer := net.Dialer{}
	if from.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		if protocol == "udp" {
			dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		}
	}
	conn, err := dialer.DialContext(ctx, protocol, to.String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if protocol == "udp" {
		if _, err := io.WriteString(conn, "?"); err != nil {
			return "", err
		}
	}
	buffer := make([]byte, 128)
	length, err := conn.Read(buffer)
	return string(buffer[:length]), err
}
