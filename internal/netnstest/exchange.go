package netnstest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Outcomes of a connection.
const (
	Refused  = "refused"
	NoAnswer = "no answer"
)

const (
	// AnswerTimeout is for answers that must come: how busy the machine is doesn't matter.
	AnswerTimeout = 20 * time.Second
	// SilenceTimeout is for answers that must not come.
	SilenceTimeout = 300 * time.Millisecond
)

// Serve answers on a port of TCP and UDP in both families, with the server's name and the client's address, until the
// test ends.
func Serve(t testing.TB, namespace, name string, port uint16) {
	t.Helper()
	address := net.JoinHostPort("::", strconv.Itoa(int(port)))
	if err := In(namespace, func() error {
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

// Ask connects once and returns the answer of Serve, Refused, or NoAnswer after the timeout. from is an address of the
// client's; the zero value lets the kernel choose.
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
