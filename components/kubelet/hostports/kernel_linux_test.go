package hostports

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	kruntime "quintet.dev/quintet/components/kubelet/runtime"
)

// machines are a node with a bridge, a pod on it and an external client, each a network namespace.
type machines struct {
	t      *testing.T
	prefix string
}

const topology = `
link add cbr0 netns NODE type bridge
link add eth0 netns POD type veth peer name pod0 netns NODE
link add eth0 netns CLIENT type veth peer name eth0 netns NODE
-n NODE link set pod0 master cbr0
-n NODE address add 10.199.0.1/24 dev cbr0
-n NODE address add fd99::1/64 dev cbr0 nodad
-n NODE address add 192.0.2.1/24 dev eth0
-n NODE address add 2001:db8::1/64 dev eth0 nodad
-n POD address add 10.199.0.2/24 dev eth0
-n POD address add fd99::2/64 dev eth0 nodad
-n CLIENT address add 192.0.2.2/24 dev eth0
-n CLIENT address add 2001:db8::2/64 dev eth0 nodad
-n NODE link set lo up
-n NODE link set cbr0 up
-n NODE link set pod0 up
-n NODE link set eth0 up
-n POD link set lo up
-n POD link set eth0 up
-n CLIENT link set eth0 up
-n POD route add default via 10.199.0.1
-n POD route add default via fd99::1
`

func newMachines(t *testing.T) *machines {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	m := &machines{t: t, prefix: fmt.Sprintf("hostports-%d-", os.Getpid())}
	for _, name := range []string{"NODE", "POD", "CLIENT"} {
		m.ip("netns add " + name)
		t.Cleanup(func() { m.ip("netns delete " + name) })
	}
	for _, name := range []string{"NODE", "POD", "CLIENT"} { // addresses are of use at once
		m.in(name, func() error {
			return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad",
				[]byte("0"), 0o600)
		})
	}
	for line := range strings.Lines(strings.TrimSpace(topology)) {
		m.ip(line)
	}
	m.in("NODE", func() error { // as node-routes does
		err := errors.Join(
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600),
			os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o600),
		)
		for _, name := range []string{"iptables", "ip6tables"} {
			off := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+name, []byte("0"), 0o600)
			if !errors.Is(off, os.ErrNotExist) {
				err = errors.Join(err, off)
			}
		}
		return err
	})
	return m
}

func (m *machines) ip(line string) {
	m.t.Helper()
	words := strings.Fields(line)
	for i, word := range words {
		if word == "NODE" || word == "POD" || word == "CLIENT" {
			words[i] = m.prefix + strings.ToLower(word)
		}
	}
	if output, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		m.t.Errorf("ip %s: %v\n%s", line, err, output)
	}
}

// in calls f in a namespace, on a thread that ends with it.
func (m *machines) in(machine string, f func() error) {
	m.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			namespace, err := os.Open("/run/netns/" + m.prefix + strings.ToLower(machine))
			if err != nil {
				return err
			}
			defer namespace.Close()
			if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			return f()
		}()
	}()
	if err := <-done; err != nil {
		m.t.Errorf("%s: %v", machine, err)
	}
}

// serve answers each connection and packet to the pod with the address that it seems to come from.
func (m *machines) serve() {
	m.in("POD", func() error {
		listener, err := net.Listen("tcp", ":8080")
		if err != nil {
			return err
		}
		m.t.Cleanup(func() { _ = listener.Close() })
		packets, err := net.ListenPacket("udp4", "10.199.0.2:5353")
		if err != nil {
			return err
		}
		m.t.Cleanup(func() { _ = packets.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
				_, _ = io.WriteString(conn, host)
				_ = conn.Close()
			}
		}()
		go func() {
			var buffer [16]byte
			for {
				_, from, err := packets.ReadFrom(buffer[:])
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(from.String())
				_, _ = packets.WriteTo([]byte(host), from)
			}
		}()
		return nil
	})
}

// ask returns what the server at an address answers; "" if there is none.
func (m *machines) ask(machine, protocol, address string) (answer string) {
	m.t.Helper()
	m.in(machine, func() error {
		dialer := net.Dialer{Timeout: 2 * time.Second}
		if protocol == "udp4" { // one flow for all, so that an old entry of it matters
			dialer.LocalAddr = &net.UDPAddr{Port: 40000}
		}
		conn, err := dialer.Dial(protocol, address)
		if err != nil {
			return nil
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
		if protocol == "udp4" {
			if _, err := conn.Write([]byte("hello")); err != nil {
				return err
			}
		}
		var buffer [64]byte
		n, _ := conn.Read(buffer[:])
		answer = string(buffer[:n])
		return nil
	})
	return answer
}

// Packets of every protocol and path reach the pod with their source address preserved.
func TestPacketsReachThePod(t *testing.T) {
	m := newMachines(t)
	m.serve()
	manager := Open()
	pod := kruntime.Pod{UID: "a", Namespace: "ns", Name: "a", Sandboxes: []kruntime.Sandbox{{
		ID: "a", State: kruntime.Running, IPs: []string{"10.199.0.2", "fd99::2"}, Ports: []v1.ContainerPort{
			{HostPort: 80, ContainerPort: 8080, Protocol: v1.ProtocolTCP},
			{HostPort: 81, ContainerPort: 8080, Protocol: v1.ProtocolTCP, HostIP: "127.0.0.1"},
			{HostPort: 53, ContainerPort: 5353, Protocol: v1.ProtocolUDP},
		},
	}}}
	if got := m.ask("CLIENT", "udp4", "192.0.2.1:53"); got != "" {
		t.Fatalf("something else answers: %q", got)
	}
	m.in("NODE", func() error { return errors.Join(manager.Sync(t.Context(), nil), manager.Set(t.Context(), &pod)) })
	for _, test := range []struct{ from, protocol, address, want string }{
		{"CLIENT", "udp4", "192.0.2.1:53", "192.0.2.2"},
		{"CLIENT", "tcp4", "192.0.2.1:80", "192.0.2.2"},
		{"CLIENT", "tcp6", "[2001:db8::1]:80", "2001:db8::2"},
		{"CLIENT", "tcp4", "192.0.2.1:81", ""},
		{"NODE", "tcp4", "192.0.2.1:80", "192.0.2.1"},
		{"NODE", "tcp4", "127.0.0.1:80", "10.199.0.1"},
		{"NODE", "tcp4", "127.0.0.1:81", "10.199.0.1"},
		{"NODE", "tcp6", "[2001:db8::1]:80", "2001:db8::1"},
		{"NODE", "udp4", "127.0.0.1:53", "10.199.0.1"},
		{"POD", "tcp4", "192.0.2.1:80", "10.199.0.1"},
		{"POD", "tcp6", "[2001:db8::1]:80", "fd99::1"},
	} {
		if got := m.ask(test.from, test.protocol, test.address); got != test.want {
			t.Errorf("%s asks %s: %q, want %q", test.from, test.address, got, test.want)
		}
	}
	m.in("NODE", func() error {
		if !manager.filter.Intact(t.Context(), manager.applied) {
			t.Error("the kernel does not have what was written")
		}
		return manager.Forget(t.Context(), "a")
	})
	for protocol, address := range map[string]string{"tcp4": "192.0.2.1:80", "udp4": "192.0.2.1:53"} {
		if got := m.ask("CLIENT", protocol, address); got != "" {
			t.Errorf("a closed port answers by %s: %q", protocol, got)
		}
	}
}
