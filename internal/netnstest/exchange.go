package netnstest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
)

// Outcomes of a connection.
const (
	Refused     = "refused"
	NoAnswer    = "no answer"
	Unreachable = "unreachable"
)

const (
	// AnswerTimeout is for answers that must come: how busy the machine is doesn't matter.
	AnswerTimeout = 20 * time.Second
	// SilenceTimeout is for answers that must not come.
	SilenceTimeout = 300 * time.Millisecond
)

// Serve answers on a port of TCP and UDP, with the server's name and the client's address, until the test ends. It does
// so at the addresses given, or at all of the namespace's; a namespace with several of a family answers datagrams from
// the right one only in the first case.
func Serve(t testing.TB, namespace, name string, port uint16, at ...netip.Addr) {
	t.Helper()
	if len(at) == 0 {
		at = []netip.Addr{netip.IPv6Unspecified()}
	}
	for _, ip := range at {
		if err := In(namespace, func() error { return serve(t, name, netip.AddrPortFrom(ip, port).String()) }); err != nil {
			t.Fatal(err)
		}
	}
}

func serve(t testing.TB, name, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = listener.Close() })
	go answerTCP(listener, name)
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = conn.Close() })
	go answerUDP(conn, name)
	return nil
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

// Ask connects once and returns the answer of Serve, Refused, Unreachable, or NoAnswer after the timeout. from is an
// address of the client's; the zero value lets the kernel choose.
func Ask(
	t testing.TB, namespace, protocol string, from netip.Addr, to netip.AddrPort, timeout time.Duration,
) (got string) {
	t.Helper()
	if err := In(namespace, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		var err error
		got, err = exchange(ctx, protocol, from, to)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			got = Refused
		case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
			got = Unreachable
		case err != nil && (ctx.Err() != nil || os.IsTimeout(err)):
			got = NoAnswer
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
