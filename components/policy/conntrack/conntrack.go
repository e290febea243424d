// Package conntrack removes connections from the kernel's connection tracking. Rules let packets of established
// connections pass, so that those of a pod that ended must not be left to the next pod with its address.
package conntrack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// maxDumps is how often the entries are read where the kernel's table changes under the reader.
const maxDumps = 5

// Netlink is connection tracking of the network namespace of the thread that calls it. It has no state.
type Netlink struct{}

// Delete removes all connections from and to the addresses, translated or not, and returns how many they were.
func (Netlink) Delete(addrs map[netip.Addr]struct{}) (int, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("netlink of connection tracking: %w", err)
	}
	defer handle.Close()
	has4, has6 := false, false
	for addr := range addrs {
		has4, has6 = has4 || addr.Is4(), has6 || addr.Is6()
	}
	deleted, err4 := 0, error(nil)
	if has4 {
		deleted, err4 = deleteFamily(handle, unix.AF_INET, addrs)
	}
	if !has6 {
		return deleted, err4
	}
	deleted6, err6 := deleteFamily(handle, unix.AF_INET6, addrs)
	return deleted + deleted6, errors.Join(err4, err6)
}

func deleteFamily(handle *netlink.Handle, family netlink.InetFamily, addrs filter) (int, error) {
	deleted := 0
	var err error
	for range maxDumps {
		var count uint
		count, err = handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, addrs)
		if deleted += int(count); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return deleted, err
}

type filter map[netip.Addr]struct{}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f filter) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	for _, ip := range []net.IP{flow.Forward.SrcIP, flow.Forward.DstIP, flow.Reverse.SrcIP, flow.Reverse.DstIP} {
		if addr, ok := netip.AddrFromSlice(ip); ok {
			if _, wanted := f[addr.Unmap()]; wanted {
				return true
			}
		}
	}
	return false
}
