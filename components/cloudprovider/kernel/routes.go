package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"quintet.dev/quintet/components/cloudprovider/forward"
)

// protocol marks our routes in the kernel's table, to distinguish them from other routes.
const protocol = 82

// nextHops are the slots of a route as the kernel takes them: one by one for IPv4, where the order decides which
// connections each one gets, and with weights for IPv6, where a next hop is listed once.
func nextHops(link int, via []netip.Addr) []*netlink.NexthopInfo {
	hop := func(address netip.Addr, weight int) *netlink.NexthopInfo {
		return &netlink.NexthopInfo{LinkIndex: link, Gw: address.AsSlice(), Hops: weight - 1}
	}
	var hops []*netlink.NexthopInfo
	if via[0].Is4() {
		for _, address := range via {
			hops = append(hops, hop(address, 1))
		}
		return hops
	}
	sorted := slices.SortedFunc(slices.Values(via), netip.Addr.Compare)
	for len(sorted) > 0 {
		end := slices.IndexFunc(sorted, func(a netip.Addr) bool { return a != sorted[0] })
		if end < 0 {
			end = len(sorted)
		}
		hops = append(hops, hop(sorted[0], end))
		sorted = sorted[end:]
	}
	return hops
}

// entry is a route as the kernel takes it. Without nodes, packets are dropped.
func entry(link int, route forward.Route) *netlink.Route {
	bits := route.Address.BitLen()
	e := &netlink.Route{
		Dst:      &net.IPNet{IP: route.Address.AsSlice(), Mask: net.CIDRMask(bits, bits)},
		Protocol: protocol, Table: unix.RT_TABLE_MAIN,
	}
	switch single := len(route.Via) > 0 && !slices.ContainsFunc(route.Via, func(a netip.Addr) bool {
		return a != route.Via[0]
	}); {
	case len(route.Via) == 0:
		e.Type = unix.RTN_BLACKHOLE
	case single:
		e.Gw, e.LinkIndex = route.Via[0].AsSlice(), link
	default:
		e.MultiPath = nextHops(link, route.Via)
	}
	return e
}

// describe is the same text for two routes that do the same.
func describe(e *netlink.Route) string {
	if e.Type == unix.RTN_BLACKHOLE {
		return "drop"
	}
	if len(e.MultiPath) == 0 {
		return fmt.Sprintf("%s dev %d", e.Gw, e.LinkIndex)
	}
	var hops []string
	for _, hop := range e.MultiPath {
		hops = append(hops, fmt.Sprintf("%s dev %d weight %d", hop.Gw, hop.LinkIndex, hop.Hops+1))
	}
	if e.Dst.IP.To4() == nil {
		slices.Sort(hops)
	}
	return strings.Join(hops, ", ")
}

// syncRoutes makes the kernel hold just these of our routes. It continues after a failure.
func (k *Kernel) syncRoutes(wanted []forward.Route) error {
	filter := &netlink.Route{Table: unix.RT_TABLE_MAIN, Protocol: protocol}
	present, err := k.handle.RouteListFiltered(netlink.FAMILY_ALL, filter,
		netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	existing := map[string]string{}
	for i := range present {
		existing[present[i].Dst.String()] = describe(&present[i])
	}
	var failures []error
	for _, route := range wanted {
		e := entry(k.link, route)
		destination := e.Dst.String()
		if existing[destination] != describe(e) {
			if err := k.handle.RouteReplace(e); err != nil {
				failures = append(failures, fmt.Errorf("route to %s: %w", destination, err))
			}
		}
		delete(existing, destination)
	}
	for i := range present {
		if _, unwanted := existing[present[i].Dst.String()]; !unwanted {
			continue
		}
		gone := &netlink.Route{
			Dst: present[i].Dst, Protocol: protocol, Table: unix.RT_TABLE_MAIN, Type: present[i].Type,
		}
		if err := k.handle.RouteDel(gone); err != nil && !errors.Is(err, unix.ESRCH) {
			failures = append(failures, fmt.Errorf("delete the route to %s: %w", present[i].Dst, err))
		}
	}
	return errors.Join(failures...)
}
