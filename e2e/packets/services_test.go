package packets

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/internal/netnstest"
)

// A pod reaches an endpoint behind the same bridge, whose frames no rule of IP sees: the endpoint's answers are
// translated back as node-routes lifts them out of the bridge.
func TestEndpointOnTheSameNode(t *testing.T) {
	c := newCluster(t)
	c.serve(t, v1.ProtocolTCP, unchanged, c.b)
	for family := range 2 {
		expect(t, &c.a.host, "tcp", clusterIP(family), sees(&c.b.host, c.a.ips[family]))
		expect(t, &c.a.host, "tcp", c.b.port(family), sees(&c.b.host, c.a.ips[family]))
	}
	if err := netnstest.In(c.node1.namespace, func() error {
		value, err := os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-iptables")
		if err == nil && strings.TrimSpace(string(value)) != "0" {
			t.Errorf("bridge-nf-call-iptables is %q: frames of the bridge pass the rules of IP", value)
		}
		return nil // without the module there is no such file
	}); err != nil {
		t.Fatal(err)
	}
}

// Pods keep their addresses on the way to another node, and the node has its own.
func TestEndpointOnAnotherNode(t *testing.T) {
	c := newCluster(t)
	c.serve(t, v1.ProtocolTCP, unchanged, c.c)
	for family := range 2 {
		expect(t, &c.a.host, "tcp", clusterIP(family), sees(&c.c.host, c.a.ips[family]))
		expect(t, &c.node1.host, "tcp", clusterIP(family), sees(&c.c.host, c.node1.ips[family]))
		expect(t, &c.c.host, "tcp", clusterIP(family), sees(&c.c.host, c.node2.bridge[family])) // itself
	}
}

// A pod reaches itself by its Service, if by the address of the node's bridge: the bridge does not send frames back.
func TestHairpin(t *testing.T) {
	c := newCluster(t)
	c.serve(t, v1.ProtocolTCP, unchanged, c.a)
	for family := range 2 {
		expect(t, &c.a.host, "tcp", clusterIP(family), sees(&c.a.host, c.node1.bridge[family]))
		expect(t, &c.b.host, "tcp", clusterIP(family), sees(&c.a.host, c.b.ips[family]))
	}
}

// A client that sends from one socket all the time follows its endpoint to another pod, though the former one answers
// still.
func TestUDPFollowsItsEndpoint(t *testing.T) {
	c := newCluster(t)
	c.serve(t, v1.ProtocolUDP, unchanged, c.a)
	for family := range 2 {
		expect(t, &c.b.host, "udp", clusterIP(family), sees(&c.a.host, c.b.ips[family]))
	}
	var clients [2]net.Conn
	for family := range clients {
		clients[family] = dialUDP(t, &c.b.host, clusterIP(family))
		if got := converse(t, clients[family], "a "); !got {
			t.Errorf("%s: the first endpoint does not answer", clusterIP(family))
		}
	}
	c.move(t, v1.ProtocolUDP, c.c)
	for family, client := range clients {
		if !converse(t, client, "c ") {
			t.Errorf("%s: datagrams still go to the former endpoint", clusterIP(family))
		}
	}
}

func dialUDP(t *testing.T, from *host, to netip.AddrPort) (conn net.Conn) {
	t.Helper()
	if err := netnstest.In(from.namespace, func() (err error) {
		conn, err = net.Dial("udp", to.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// converse sends until an answer begins with a text, and tells whether one does.
func converse(t *testing.T, conn net.Conn, want string) bool {
	t.Helper()
	buffer := make([]byte, 128)
	for deadline := time.Now().Add(netnstest.AnswerTimeout); time.Now().Before(deadline); {
		_, _ = conn.Write([]byte("?")) // an ICMP error of an earlier one ends up here
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := conn.Read(buffer); err == nil && strings.HasPrefix(string(buffer[:n]), want) {
			return true
		}
	}
	return false
}

// A client keeps its endpoint while it comes back in time, and later may get another one.
func TestSessionAffinityExpires(t *testing.T) {
	const seconds = 2
	c := newCluster(t)
	c.serve(t, v1.ProtocolTCP, func(s *v1.Service) {
		s.Spec.SessionAffinity = v1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &v1.SessionAffinityConfig{
			ClientIP: &v1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](seconds)},
		}
	}, c.a, c.c)
	ask := func() string {
		return netnstest.Ask(t, c.b.namespace, "tcp", netip.Addr{}, clusterIP(0), netnstest.AnswerTimeout)
	}
	first := c.firstAnswer(t)
	// In time, each connection extends the session: they last longer than one session in all.
	for range 3 * seconds * 2 {
		if got := ask(); got != first {
			t.Fatalf("got %q, want %q", got, first)
		}
		time.Sleep(time.Second / 2)
	}
	// By chance the same endpoint is chosen again, but hardly twelve times.
	for range 12 {
		time.Sleep(seconds*time.Second + time.Second/2)
		if ask() != first {
			return
		}
	}
	t.Errorf("%q answers, however late the client comes back", first)
}

// firstAnswer waits for the first answer of an endpoint to pod b.
func (c *cluster) firstAnswer(t *testing.T) string {
	t.Helper()
	for deadline := time.Now().Add(netnstest.AnswerTimeout); time.Now().Before(deadline); {
		got := netnstest.Ask(t, c.b.namespace, "tcp", netip.Addr{}, clusterIP(0), time.Second)
		if got == sees(&c.a.host, c.b.ips[0]) || got == sees(&c.c.host, c.b.ips[0]) {
			return got
		}
	}
	t.Fatal("no endpoint answers")
	return ""
}
