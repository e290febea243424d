package routes

import (
	"errors"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// protocol marks our routes in the kernel's table, so that they are told from those of others.
const protocol = 81

// kernel is the machine's routing table.
type kernel struct{}

var _ Table = kernel{}

// Forward implements Table.
func (kernel) Forward() error {
	const file = "/proc/sys/net/ipv4/ip_forward"
	if data, err := os.ReadFile(file); err == nil && len(data) > 0 && data[0] == '1' {
		return nil // it may be read-only, and is as it should be
	}
	return os.WriteFile(file, []byte("1\n"), 0o600)
}

// List implements Table.
func (kernel) List() ([]Route, error) {
	found, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, err
	}
	var routes []Route
	for _, route := range found {
		if route.Dst != nil && route.Gw != nil {
			routes = append(routes, Route{Destination: route.Dst.String(), Via: route.Gw.String()})
		}
	}
	return routes, nil
}

func (kernel) entry(route Route) (*netlink.Route, error) {
	_, destination, err := net.ParseCIDR(route.Destination)
	if err != nil {
		return nil, err
	}
	return &netlink.Route{Dst: destination, Gw: net.ParseIP(route.Via), Protocol: protocol}, nil
}

// Set implements Table.
func (k kernel) Set(route Route) error {
	entry, err := k.entry(route)
	if err != nil {
		return err
	}
	return netlink.RouteReplace(entry)
}

// Delete implements Table.
func (k kernel) Delete(route Route) error {
	entry, err := k.entry(route)
	if err != nil {
		return err
	}
	if err := netlink.RouteDel(entry); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
