package packets

import "testing"

// What leaves the cluster's ranges has the node's address, which alone the world outside can answer; inside of them
// pods have their own.
func TestWayOut(t *testing.T) {
	c := newCluster(t)
	c.start(t)
	for family := range 2 {
		own := c.a.ips[family]
		for _, protocol := range []string{"tcp", "udp"} {
			expect(t, &c.a.host, protocol, c.outside.port(family), sees(c.outside, c.node1.ips[family]))
			expect(t, &c.c.host, protocol, c.outside.port(family), sees(c.outside, c.node2.ips[family]))
			expect(t, &c.a.host, protocol, c.c.port(family), sees(&c.c.host, own))
			expect(t, &c.a.host, protocol, c.b.port(family), sees(&c.b.host, own))
			expect(t, &c.a.host, protocol, c.node1.port(family), sees(&c.node1.host, own))
			expect(t, &c.a.host, protocol, c.node2.port(family), sees(&c.node2.host, own))
		}
	}
}
