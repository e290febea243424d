package routes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// protocol marks our routes in the kernel's table, to distinguish them from other routes.
const protocol = 81

// kernel is the machine's routing table.
type kernel struct{}

var _ Table = kernel{}

// Forward implements Table. Packets that come from a pod and go to another one of the same bridge are routed, too; the
// no ICMP redirect is sent.
func (kernel) Forward() error {
	return errors.Join(
		setSysctl("net/ipv4/ip_forward", "1", true),
		setSysctl("net/ipv6/conf/all/forwarding", "1", false),
		setSysctl("net/ipv4/conf/all/send_redirects", "0", true),
		setSysctl("net/ipv4/conf/default/send_redirects", "0", true),
	)
}

// setSysctl writes a value that is not there yet; the file may be read-only where it is as it should be. What is not
// required may be missing, as the files of IPv6 are on a machine without.
func setSysctl(name, value string, required bool) error {
	file := "/proc/sys/" + name
	data, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(data)) == value || errors.Is(err, os.ErrNotExist) && !required {
		return nil
	}
	return os.WriteFile(file, []byte(value+"\n"), 0o600)
}

// Bridge implements Table.
func (kernel) Bridge(name string) (string, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("interface %s: %w", name, err)
	}
	err = errors.Join(
		// The value of conf/default at the bridge's creation may have been another one.
		setSysctl("net/ipv4/conf/"+name+"/send_redirects", "0", true),
		// Frames are routed, not filtered on the bridge: there a packet that is translated to the address of its sender
		// would have to leave by the port that it came in by, which a bridge does not do. The settings are this network
		// namespace's, and are there only where the module is loaded.
		setSysctl("net/bridge/bridge-nf-call-iptables", "0", false),
		setSysctl("net/bridge/bridge-nf-call-ip6tables", "0", false),
	)
	return link.Attrs().HardwareAddr.String(), err
}

// Watch implements Table.
func (kernel) Watch(ctx context.Context, name string, changed chan<- struct{}) error {
	updates := make(chan netlink.LinkUpdate)
	if err := netlink.LinkSubscribe(updates, ctx.Done()); err != nil {
		return err
	}
	go func() {
		for update := range updates {
			if update.Attrs().Name != name {
				continue
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return nil
}

// List implements Table.
func (kernel) List() ([]Route, error) {
	found, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol},
		netlink.RT_FILTER_PROTOCOL)
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
