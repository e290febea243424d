package robustness

import (
	"io"
	"net"
	"sync"
)

// link passes connections on to a target, and can be cut.
type link struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	down   bool
	ends   map[net.Conn]struct{}
	copies sync.WaitGroup
}

func newLink(target string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, target: target, ends: map[net.Conn]struct{}{}}
	l.copies.Go(l.accept)
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

// set lets connections through, or breaks those there are and every new one.
func (l *link) set(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = !up
	if l.down {
		for end := range l.ends {
			_ = end.Close()
		}
	}
}

func (l *link) close() {
	_ = l.listener.Close()
	l.set(false)
	l.copies.Wait()
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.copies.Go(func() { l.pass(client) })
	}
}

func (l *link) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !l.hold(client, server) {
		return
	}
	defer l.release(client, server)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(server, client)
	_ = server.Close()
	back.Wait()
}

func (l *link) hold(ends ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range ends {
		l.ends[end] = struct{}{}
	}
	return !l.down
}

func (l *link) release(ends ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range ends {
		delete(l.ends, end)
	}
}
