package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/cloudprovider/forward"
)

// Kernel is a forward.Kernel of one network namespace. Linux itself does not answer for an address that it routes out
// by the interface that it is asked on, and would keep the packets of an address of its own: answers are given here.
type Kernel struct {
	link    int
	mac     net.HardwareAddr
	handle  *netlink.Handle
	sockets map[bool]*os.File // by whether the family is IPv4
	groups  int               // socket that is a member of the groups below; -1 without IPv6

	joined map[netip.Addr]bool // belongs to Apply

	mu       sync.Mutex
	answered map[netip.Addr]bool
	nodes    map[netip.Addr]bool
}

var _ forward.Kernel = (*Kernel)(nil)

// Open sets the sysctls that forwarding takes, and opens what answers are given by. Close must be called.
func Open(network *Network) (*Kernel, error) {
	four, six := network.families()
	if err := configure(network.Interface, four, six); err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(network.Interface)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", network.Interface, err)
	}
	if len(link.Attrs().HardwareAddr) != 6 {
		return nil, fmt.Errorf("interface %s has no hardware address: use one of an Ethernet link", network.Interface)
	}
	k := &Kernel{
		link: link.Attrs().Index, mac: link.Attrs().HardwareAddr, groups: -1,
		sockets: map[bool]*os.File{}, joined: map[netip.Addr]bool{},
	}
	if k.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	if err := k.openSockets(four, six); err != nil {
		k.release()
		return nil, err
	}
	return k, nil
}

func (k *Kernel) openSockets(four, six bool) error {
	for is4, protocol := range map[bool]uint16{true: etherARP, false: etherIPv6} {
		if is4 && !four || !is4 && !six {
			continue
		}
		socket, err := openSocket(k.link, protocol)
		if err != nil {
			return err
		}
		k.sockets[is4] = socket
	}
	if !six {
		return nil
	}
	var err error
	if k.groups, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("socket of IPv6: %w", err)
	}
	return nil
}

func (k *Kernel) release() {
	for _, socket := range k.sockets {
		_ = socket.Close()
	}
	if k.groups >= 0 {
		_ = unix.Close(k.groups)
	}
	k.handle.Close()
}

// Apply implements forward.Kernel.
func (k *Kernel) Apply(ctx context.Context, state forward.State) error {
	err := errors.Join(k.syncRoutes(state.Routes), k.syncGroups(state.Routes))
	answered, nodes := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, route := range state.Routes {
		answered[route.Address] = true
	}
	for _, address := range state.Nodes {
		nodes[address] = true
	}
	k.mu.Lock()
	before := k.answered
	k.answered, k.nodes = answered, nodes
	k.mu.Unlock()
	for address := range answered {
		if before[address] {
			continue
		}
		// Clients that knew the address at another machine, or at this one's predecessor, find it here.
		if err := k.send(announcement(address, k.mac), address); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to announce an address", "address", address)
		}
	}
	return err
}

func (k *Kernel) send(frame []byte, of netip.Addr) error {
	socket := k.sockets[of.Is4()]
	if socket == nil {
		return fmt.Errorf("the interface has no address of the family of %s", of)
	}
	_, err := socket.Write(frame)
	return err
}

// syncGroups joins the multicast groups that IPv6 addresses are asked for in, so that bridges pass the questions on.
func (k *Kernel) syncGroups(routes []forward.Route) error {
	wanted := map[netip.Addr]bool{}
	for _, route := range routes {
		if route.Address.Is6() && k.groups >= 0 {
			wanted[solicitedNode(route.Address)] = true
		}
	}
	var failures []error
	set := func(option int, group netip.Addr) bool {
		request := &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(k.link)}
		err := unix.SetsockoptIPv6Mreq(k.groups, unix.IPPROTO_IPV6, option, request)
		if err != nil {
			failures = append(failures, fmt.Errorf("membership of %s: %w", group, err))
		}
		return err == nil
	}
	for group := range wanted {
		if !k.joined[group] && set(unix.IPV6_JOIN_GROUP, group) {
			k.joined[group] = true
		}
	}
	for group := range k.joined {
		if !wanted[group] && set(unix.IPV6_LEAVE_GROUP, group) {
			delete(k.joined, group)
		}
	}
	return errors.Join(failures...)
}

// Serve implements forward.Kernel.
func (k *Kernel) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var answering sync.WaitGroup
	for _, socket := range k.sockets {
		answering.Go(func() { cancel(k.answer(ctx, socket)) })
	}
	<-ctx.Done()
	for _, socket := range k.sockets {
		_ = socket.SetReadDeadline(time.Unix(1, 0)) // a time in the past ends pending reads
	}
	answering.Wait()
	return context.Cause(ctx)
}

// answer answers the queries that a socket receives.
func (k *Kernel) answer(ctx context.Context, socket *os.File) error {
	frame := make([]byte, 2048)
	for {
		n, err := socket.Read(frame)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, unix.ENETDOWN) {
			continue // the interface may come up again
		}
		if err != nil {
			return fmt.Errorf("receive questions for addresses: %w", err)
		}
		q, ok := parse(frame[:n])
		if !ok || !k.answers(q) {
			continue
		}
		if err := k.send(answer(q, k.mac), q.target); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to answer for an address", "address", q.target)
		}
	}
}

// answers tells whether a query is answered. One of a node is not: nodes ask only for what they do not translate, such
// as ports without a Service, and the packets would go round between them and this machine.
func (k *Kernel) answers(q query) bool {
	k.mu.Lock()
	ours, nodes := k.answered[q.target], k.nodes
	k.mu.Unlock()
	if !ours || nodes[q.from] {
		return false
	}
	family := netlink.FAMILY_V6
	if q.target.Is4() {
		family = netlink.FAMILY_V4
	}
	neighbors, err := k.handle.NeighList(k.link, family)
	if err != nil {
		return true
	}
	for _, neighbor := range neighbors {
		address, _ := netip.AddrFromSlice(neighbor.IP)
		if nodes[address.Unmap()] && neighbor.HardwareAddr.String() == q.mac.String() {
			return false
		}
	}
	return true
}

// Close implements forward.Kernel. Sysctls stay: another program may have come to need them.
func (k *Kernel) Close() error {
	err := errors.Join(k.syncRoutes(nil), k.syncGroups(nil))
	k.release()
	return err
}
