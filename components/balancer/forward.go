package balancer

import (
	"cmp"
	"context"
	"io"
	"net"
	"slices"
	"sync"

	"k8s.io/klog/v2"
)

// backend is one API server. It is safe for concurrent use.
type backend struct {
	address string

	mu       sync.Mutex
	ready    bool // as of the last check
	refusing bool // took no connection since then
	failures int  // of checks, in a row
	conns    map[net.Conn]struct{}
}

func newBackend(address string) *backend {
	return &backend{address: address, conns: map[net.Conn]struct{}{}}
}

// set takes note of what a check found. A backend whose check fails stands behind others from then on. It tells whether
// that is news, and how many checks in a row have failed.
func (b *backend) set(ready bool) (changed bool, failures int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed, b.ready, b.refusing = b.ready != ready, ready, false
	if b.failures++; ready {
		b.failures = 0
	}
	return changed, b.failures
}

// closeConns tells how many connections it closed.
func (b *backend) closeConns() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.conns {
		_ = conn.Close()
	}
	return len(b.conns)
}

// refuse has the backend stand behind others until the next check.
func (b *backend) refuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusing = true
}

func (b *backend) state() (ready bool, conns int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready && !b.refusing, len(b.conns)
}

func (b *backend) add(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[conn] = struct{}{}
}

func (b *backend) remove(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, conn)
}

// candidates are the backends in the order in which a connection tries them: ready ones first, of these the one with
// the fewest connections. The others follow, as a check may lag behind.
func (b *Balancer) candidates() []*backend {
	type choice struct {
		of    *backend
		ready bool
		conns int
	}
	var choices []choice
	for _, backend := range b.backends {
		ready, conns := backend.state()
		choices = append(choices, choice{backend, ready, conns})
	}
	slices.SortStableFunc(choices, func(a, b choice) int {
		if a.ready != b.ready {
			return map[bool]int{true: -1, false: 1}[a.ready]
		}
		return cmp.Compare(a.conns, b.conns)
	})
	var order []*backend
	for _, c := range choices {
		order = append(order, c.of)
	}
	return order
}

// forward passes a connection on to the first backend that takes it.
func (b *Balancer) forward(ctx context.Context, client net.Conn) {
	defer client.Close()
	dialer := net.Dialer{Timeout: b.config.Timeout}
	for _, to := range b.candidates() {
		server, err := dialer.DialContext(ctx, "tcp", to.address)
		if err != nil {
			to.refuse()
			klog.FromContext(ctx).V(2).Info("API server takes no connection", "backend", to.address, "err", err)
			continue
		}
		to.add(server)
		pass(ctx, client, server)
		to.remove(server)
		return
	}
}

// pass copies bytes both ways until either side is closed or ctx ends. The end of one direction is passed on.
func pass(ctx context.Context, client, server net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = client.Close(); _ = server.Close() })
	defer stop()
	var copying sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		copying.Go(func() {
			from, to := way[0], way[1]
			if _, err := io.Copy(to, from); err != nil {
				_ = client.Close()
				_ = server.Close()
				return
			}
			if half, ok := to.(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	copying.Wait()
	_ = server.Close()
}
