package conntrack

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// maxDumps is how often the entries are read where the kernel's table changes under the reader.
const maxDumps = 5

// Netlink is the Kernel of one network namespace.
type Netlink struct{ handle *netlink.Handle }

// NewNetlink opens the network namespace of the calling thread.
func NewNetlink() (*Netlink, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening netlink for conntrack: %w", err)
	}
	return &Netlink{handle}, nil
}

// Close releases the sockets.
func (n *Netlink) Close() { n.handle.Close() }

// Delete implements Kernel.
func (n *Netlink) Delete(family v1.IPFamily, stale func(Flow) bool) (int, error) {
	inet := netlink.InetFamily(unix.AF_INET)
	if family == v1.IPv6Protocol {
		inet = unix.AF_INET6
	}
	var deleted int
	var err error
	for range maxDumps {
		var count uint
		count, err = n.handle.ConntrackDeleteFilters(netlink.ConntrackTable, inet, filter(stale))
		deleted += int(count)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return deleted, err
}

type filter func(Flow) bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f filter) MatchConntrackFlow(entry *netlink.ConntrackFlow) bool {
	destination, ok := netip.AddrFromSlice(entry.Forward.DstIP)
	source, replyOK := netip.AddrFromSlice(entry.Reverse.SrcIP)
	return ok && replyOK && f(Flow{
		Protocol:    entry.Forward.Protocol,
		Destination: netip.AddrPortFrom(destination.Unmap(), entry.Forward.DstPort),
		ReplySource: source.Unmap(),
	})
}
