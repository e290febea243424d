package bootstrap

import (
	"fmt"
	"net"
	"testing"
)

func TestCounted(t *testing.T) {
	ips := func(last ...byte) (out []net.IP) {
		for _, b := range last {
			out = append(out, net.IPv4(10, 0, 0, b))
		}
		return out
	}
	for _, c := range []struct {
		others []net.IP
		own    byte
		count  int
		want   []net.IP
	}{
		{nil, 2, 1, ips(2)},
		{ips(1, 3), 2, 3, ips(1, 2, 3)},
		{ips(1, 2, 3), 2, 2, ips(1, 2)},
		{ips(1, 2), 3, 2, ips(2, 3)},
		{ips(1, 2, 3, 4), 4, 1, ips(4)},
		{ips(3, 1, 3), 1, 5, ips(1, 3)},
		{ips(9, 10), 8, 2, []net.IP{net.IPv4(10, 0, 0, 10), net.IPv4(10, 0, 0, 8)}},
	} {
		if got := counted(c.others, net.IPv4(10, 0, 0, c.own), c.count); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%d of %d with %v: %v, want %v", c.own, c.count, c.others, got, c.want)
		}
	}
}
