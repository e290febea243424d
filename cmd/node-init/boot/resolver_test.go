package boot

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
)

// TestQuestionsArePassedOn: over UDP and TCP, to another resolver, here one that answers in capitals.
func TestQuestionsArePassedOn(t *testing.T) {
	upstream, err := listenResolver("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(upstream.close)
	go func() {
		var question [64]byte
		n, from, err := upstream.packets.ReadFrom(question[:])
		if err == nil {
			_, _ = upstream.packets.WriteTo([]byte(strings.ToUpper(string(question[:n]))), from)
		}
	}()
	go func() {
		conn, err := upstream.listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		question, _ := io.ReadAll(conn)
		_, _ = conn.Write([]byte(strings.ToUpper(string(question))))
	}()
	r, err := listenResolver("127.0.0.1:0", upstream.packets.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.run(ctx) }()
	for _, network := range []string{"udp", "tcp"} {
		conn, err := net.Dial(network, r.packets.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Write([]byte("where"))
		must(t, err)
		if tcp, ok := conn.(*net.TCPConn); ok {
			must(t, tcp.CloseWrite())
		}
		answer := make([]byte, len("where"))
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "WHERE" {
			t.Errorf("%s: %q, %v", network, answer, err)
		}
		must(t, conn.Close())
	}
	cancel()
	<-ended
}
