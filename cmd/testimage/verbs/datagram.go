package verbs

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// datagram sends one datagram and prints the answer. A fixed source address makes several runs one flow to the kernel.
func datagram(args []string, s Streams) (int, error) {
	plain, opts, err := options(args, "from", "text", "timeout")
	if err != nil {
		return 2, err
	}
	if len(plain) != 1 {
		return 2, fmt.Errorf("usage: datagram HOST:PORT [--from=ADDR] [--text=T] [--timeout=DUR]")
	}
	timeout, err := duration(opts, "timeout", 5*time.Second)
	if err != nil {
		return 2, err
	}
	dialer := net.Dialer{Timeout: timeout}
	if from := opts["from"]; from != "" {
		if dialer.LocalAddr, err = net.ResolveUDPAddr("udp", from); err != nil {
			return 2, fmt.Errorf("--from: %w", err)
		}
	}
	conn, err := dialer.Dial("udp", plain[0])
	if err != nil {
		return 1, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 1, err
	}
	if _, err := fmt.Fprint(conn, opts["text"]); err != nil {
		return 1, err
	}
	answer := make([]byte, maxDatagram)
	n, err := conn.Read(answer)
	if err != nil {
		return 1, err
	}
	_, err = s.Out.Write(answer[:n])
	return 0, err
}

// maxDatagram is the size of the largest datagram of UDP.
const maxDatagram = 1 << 16

// udp answers each datagram with the server's text and the address that the datagram came from.
func (srv *server) udp(conn net.PacketConn) error {
	received := make([]byte, maxDatagram)
	for {
		_, client, err := conn.ReadFrom(received)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			continue // an ICMP error of an earlier answer
		}
		_, _ = fmt.Fprintf(packetWriter{conn, client}, "%s %s\n", srv.text, client)
	}
}

// packetWriter writes datagrams to one address.
type packetWriter struct {
	conn net.PacketConn
	to   net.Addr
}

func (w packetWriter) Write(p []byte) (int, error) { return w.conn.WriteTo(p, w.to) }
