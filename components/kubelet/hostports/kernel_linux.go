package hostports

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/internal/nftcheck"
)

// Open makes a manager of the host ports of the network namespace that the process is in. A machine without nftables
// is an error only once a pod requests a host port.
func Open() *Manager {
	open := func(name knftables.Family) (knftables.Interface, error) {
		return knftables.New(name, tableName, knftables.NoObjectCommentEmulation)
	}
	return NewManager(&tables{open: open, absent: absent, localnet: allowLocalnet}, entries{})
}

// absent asks the kernel by netlink: to start the program nft, which a node without host ports has no other use for,
// costs more than the rest of the kubelet's first sync.
func absent(name knftables.Family) bool {
	number := uint8(unix.NFPROTO_IPV4)
	if name == knftables.IPv6Family {
		number = unix.NFPROTO_IPV6
	}
	listing, err := nftcheck.Table{Family: number, Name: tableName}.Listing()
	return err == nil && !listing.Active && len(listing.Parts) == 0
}

// tables is a Filter over nftables, with a table in each of the families ip and ip6.
type tables struct {
	open func(knftables.Family) (knftables.Interface, error)
	// absent tells that a family has no table of this name.
	absent func(knftables.Family) bool
	// localnet lets packets from the loopback go to an address.
	localnet func(netip.Addr) error

	nft     map[knftables.Family]knftables.Interface
	clean   map[knftables.Family]bool // no table of ours is there
	written map[knftables.Family]bool // the family was of use
}

// Apply implements Filter. Missing support for nftables, of one family or altogether, is an error only where that
// family has a port to open.
func (t *tables) Apply(ctx context.Context, mappings []Mapping) error {
	if t.nft == nil {
		t.nft = map[knftables.Family]knftables.Interface{}
		t.clean, t.written = map[knftables.Family]bool{}, map[knftables.Family]bool{}
	}
	var errs []error
	for _, f := range families() {
		own := f.of(mappings)
		if len(own) == 0 && (t.clean[f.name] || t.absent(f.name)) {
			t.clean[f.name] = true
			continue
		}
		if err := t.replace(ctx, f, own); err != nil && (len(own) > 0 || t.written[f.name]) {
			errs = append(errs, err)
			continue
		}
		t.clean[f.name] = len(own) == 0
		t.written[f.name] = t.written[f.name] || len(own) > 0
		if f.name == knftables.IPv4Family {
			t.openLoopback(ctx, own)
		}
	}
	return errors.Join(errs...)
}

// replace rewrites the family's table in one transaction: no packet meets one that is half there.
func (t *tables) replace(ctx context.Context, f family, mappings []Mapping) error {
	nft := t.nft[f.name]
	if nft == nil {
		opened, err := t.open(f.name)
		if err != nil {
			return fmt.Errorf("nftables, family %s (is the program nft installed?): %w", f.name, err)
		}
		nft, t.nft[f.name] = opened, opened
	}
	tx := nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	if len(mappings) > 0 {
		for _, object := range f.compile(mappings) {
			tx.Add(object)
		}
	}
	if err := nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("nftables, family %s: %w", f.name, err)
	}
	return nil
}

// openLoopback lets the node reach the pods' ports by the loopback address. Where it can't, all other addresses of the
// node do.
func (t *tables) openLoopback(ctx context.Context, mappings []Mapping) {
	for _, m := range mappings {
		if err := t.localnet(m.Target.Addr()); err != nil {
			klog.FromContext(ctx).Info("Host ports can't be reached by the loopback address", "pod", m.Pod, "err", err)
		}
	}
}

// Intact implements Filter.
func (t *tables) Intact(ctx context.Context, mappings []Mapping) bool {
	for _, f := range families() {
		own := f.of(mappings)
		if len(own) == 0 {
			continue
		}
		nft := t.nft[f.name]
		if nft == nil || !intact(ctx, nft, f.compile(own)) {
			return false
		}
	}
	return true
}

// intact counts rules and elements: no other program writes them.
func intact(ctx context.Context, nft knftables.Interface, wanted []knftables.Object) bool {
	rules, elements := map[string]int{}, map[string]int{}
	for _, object := range wanted {
		switch o := object.(type) {
		case *knftables.Rule:
			rules[o.Chain]++
		case *knftables.Element:
			elements[o.Map+o.Set]++
		}
	}
	all, err := nft.ListRules(ctx, "")
	if err != nil {
		return false
	}
	for _, rule := range all {
		rules[rule.Chain]--
	}
	for _, name := range []string{portsMap, addressedMap} {
		there, err := nft.ListElements(ctx, "map", name)
		if err != nil || len(there) != elements[name] {
			return false
		}
	}
	for _, name := range []string{podsSet, hairpinSet} {
		there, err := nft.ListElements(ctx, "set", name)
		if err != nil || len(there) != elements[name] {
			return false
		}
	}
	for _, missing := range rules {
		if missing != 0 {
			return false
		}
	}
	return true
}

// allowLocalnet sets route_localnet of the interface that leads to a pod.
func allowLocalnet(pod netip.Addr) error {
	routes, err := netlink.RouteGet(pod.AsSlice())
	if err != nil {
		return fmt.Errorf("route to %s: %w", pod, err)
	}
	if len(routes) == 0 {
		return fmt.Errorf("there is no route to %s", pod)
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return err
	}
	file := "/proc/sys/net/ipv4/conf/" + link.Attrs().Name + "/route_localnet"
	if value, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(value)) == "1" {
		return nil
	}
	return os.WriteFile(file, []byte("1\n"), 0o600)
}

// entries is the kernel's Conntrack.
type entries struct{}

// maxDumps is how often the entries are read where the kernel's table changes under the reader.
const maxDumps = 5

// Forget implements Conntrack.
func (entries) Forget(mappings []Mapping) error {
	var errs []error
	for _, f := range families() {
		own := slices.DeleteFunc(slices.Clone(mappings), func(m Mapping) bool { return !f.is(m.Target.Addr()) })
		if len(own) == 0 {
			continue
		}
		inet := netlink.InetFamily(unix.AF_INET)
		if f.name == knftables.IPv6Family {
			inet = unix.AF_INET6
		}
		var err error
		for range maxDumps {
			_, err = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, inet, staleFlows(own))
			if !errors.Is(err, netlink.ErrDumpInterrupted) {
				break
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("conntrack entries, family %s: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// staleFlows matches what was sent to UDP host ports.
type staleFlows []Mapping

// MatchConntrackFlow implements netlink.CustomConntrackFilter. It leaves alone what is translated to another place than
// a pod of the mappings, such as to an endpoint of a Service with the same port.
func (s staleFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	to, ok := netip.AddrFromSlice(flow.Forward.DstIP)
	from, replyOK := netip.AddrFromSlice(flow.Reverse.SrcIP)
	if !ok || !replyOK || flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	to, from = to.Unmap(), from.Unmap()
	return slices.ContainsFunc(s, func(m Mapping) bool {
		return m.Protocol == v1.ProtocolUDP && m.HostPort == flow.Forward.DstPort &&
			(!m.HostIP.IsValid() || m.HostIP == to) && (from == to || from == m.Target.Addr())
	})
}
