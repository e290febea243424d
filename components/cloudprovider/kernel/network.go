// Package kernel forwards packets of load balancers through Linux: it answers for their addresses on the link, and
// routes what comes for them to nodes.
package kernel

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Network describes the link that clients and nodes are on.
type Network struct {
	Interface string
	// Prefixes are the interface's addresses, but for link-local ones, with the lengths of their networks' prefixes.
	Prefixes []netip.Prefix
	// Gateways are the next hops of the default routes.
	Gateways []netip.Addr
}

// Find returns the network of an interface, or of the one with the default route if name is empty.
func Find(name string) (*Network, error) {
	defaults, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	n := &Network{Interface: name}
	for _, route := range defaults {
		gateway, ok := netip.AddrFromSlice(route.Gw)
		if ones, _ := prefixSize(route); !ok || ones != 0 {
			continue
		}
		n.Gateways = append(n.Gateways, gateway.Unmap())
		if n.Interface != "" {
			continue
		}
		link, err := netlink.LinkByIndex(route.LinkIndex)
		if err != nil {
			return nil, fmt.Errorf("interface of the default route: %w", err)
		}
		n.Interface = link.Attrs().Name
	}
	if n.Interface == "" {
		n.Interface = "eth0"
	}
	link, err := netlink.LinkByName(n.Interface)
	if err != nil {
		return nil, fmt.Errorf("--interface %s: %w", n.Interface, err)
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("--interface %s: list addresses: %w", n.Interface, err)
	}
	for _, address := range addresses {
		ip, ok := netip.AddrFromSlice(address.IP)
		if ones, _ := address.Mask.Size(); ok && !ip.IsLinkLocalUnicast() {
			n.Prefixes = append(n.Prefixes, netip.PrefixFrom(ip.Unmap(), ones))
		}
	}
	if len(n.Prefixes) == 0 {
		return nil, fmt.Errorf("--interface %s: it has no address", n.Interface)
	}
	return n, nil
}

func prefixSize(route netlink.Route) (ones, bits int) {
	if route.Dst == nil {
		return 0, 0
	}
	return route.Dst.Mask.Size()
}

// OnLink tells whether an address is reached without a router.
func (n *Network) OnLink(address netip.Addr) bool {
	for _, prefix := range n.Prefixes {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// Contains is an error if addresses of a pool would not be asked for on the link.
func (n *Network) Contains(pool netip.Prefix) error {
	for _, prefix := range n.Prefixes {
		if prefix.Bits() <= pool.Bits() && prefix.Contains(pool.Addr()) {
			return nil
		}
	}
	return fmt.Errorf("--address-pool %s is not within a network of interface %s, which has %v",
		pool, n.Interface, n.Prefixes)
}

// Reserved tells whether an address is the network's own: that of this machine, of a gateway, of all or of none.
func (n *Network) Reserved(address netip.Addr) bool {
	for _, gateway := range n.Gateways {
		if gateway == address {
			return true
		}
	}
	for _, prefix := range n.Prefixes {
		if prefix.Addr() == address || prefix.Masked().Addr() == address || broadcast(prefix) == address {
			return true
		}
	}
	return false
}

// broadcast is the last address of an IPv4 network that has more than two.
func broadcast(prefix netip.Prefix) netip.Addr {
	if !prefix.Addr().Is4() || prefix.Bits() > 30 {
		return netip.Addr{}
	}
	bytes := prefix.Addr().As4()
	for bit := prefix.Bits(); bit < 32; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(bytes)
}

func (n *Network) families() (four, six bool) {
	for _, prefix := range n.Prefixes {
		four, six = four || prefix.Addr().Is4(), six || prefix.Addr().Is6()
	}
	return four, six
}
