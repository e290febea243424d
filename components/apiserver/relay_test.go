package apiserver_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes connections on until it is cut.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	dead     bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener}
	t.Cleanup(r.cut)
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil || !r.keep(in, out) {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in) }()
			go func() { _, _ = io.Copy(in, out) }()
		}
	}()
	return r
}

// keep reports whether the relay is still there.
func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, conns...)
	return !r.dead
}

func (r *relay) cut() {
	_ = r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
	for _, c := range r.conns {
		_ = c.Close()
	}
}
