package robustness

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// ports gives out ports of 127.0.0.1, each once. They are below those that Linux gives to connections and to listeners
// that ask for any (ip_local_port_range), so that the port of a killed program is still free when it starts again.
type ports struct {
	last int
}

const firstPort, portStarts = 10000, 20000

// address returns one on which no process listens now.
func (p *ports) address(t *testing.T) string {
	t.Helper()
	if p.last == 0 {
		p.last = firstPort + rand.N(portStarts)
	}
	for range 1000 {
		p.last++
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.last))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatalf("no port up to %d is free", p.last)
	return ""
}
