package join

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// addresses are the node's, one of each family: those of the interface that leads to the API server.
func addresses(server string, families []corev1.IPFamily) ([]string, error) {
	conn, err := net.Dial("udp", server) // which sends nothing
	if err != nil {
		return nil, fmt.Errorf("the way to the API server at %s: %w", server, err)
	}
	defer conn.Close()
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range interfaces {
		found, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		if ips := unicast(found); slices.Contains(ips, local) {
			return choose(local, ips, families)
		}
	}
	return nil, fmt.Errorf("no interface has the address %s, which leads to the API server", local)
}

// choose takes an address of each family, local itself where it fits.
func choose(local netip.Addr, ips []netip.Addr, families []corev1.IPFamily) ([]string, error) {
	var chosen []string
	for _, family := range families {
		var found netip.Addr
		for _, ip := range append([]netip.Addr{local}, ips...) {
			if !found.IsValid() && ip.Is4() == (family == corev1.IPv4Protocol) {
				found = ip
			}
		}
		if !found.IsValid() {
			return nil, fmt.Errorf("the cluster's nodes have addresses of %s, and the interface with %s has none",
				family, local)
		}
		chosen = append(chosen, found.String())
	}
	return chosen, nil
}

// unicast are the addresses that a server on this link can reach: those of this machine alone on its loopback.
func unicast(found []net.Addr) []netip.Addr {
	var ips []netip.Addr
	for _, address := range found {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil &&
			(prefix.Addr().IsGlobalUnicast() || prefix.Addr().IsLoopback()) {
			ips = append(ips, prefix.Addr().Unmap())
		}
	}
	return ips
}
