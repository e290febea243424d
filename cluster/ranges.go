package cluster

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// IPFamily is which addresses nodes, pods and Services have.
type IPFamily string

// With DualStack both are there, and IPv4 is the primary one.
const (
	IPv4      IPFamily = "ipv4"
	IPv6      IPFamily = "ipv6"
	DualStack IPFamily = "dual"
)

// IPFamilies lists all of them.
func IPFamilies() []IPFamily { return []IPFamily{IPv4, IPv6, DualStack} }

const (
	clusterDomain = "cluster.local"
	dnsServiceIP  = 10 // the number, in the range of Services, of the address of cluster DNS
)

// family is a family's ranges; those of IPv4 are kubeadm's and kind's. The addresses exist only inside the nodes.
type family struct {
	pods, services netip.Prefix
	nodeBits       int // length of the prefix of a node's pods
	// mostBits is how many bits the range of pods can be widened by before it touches that of Services or is wider than
	// the node IPAM controller uses.
	mostBits int
	maskFlag string // the controller manager's, for nodeBits
}

var (
	family4 = family{pods: netip.MustParsePrefix("10.244.0.0/16"), services: netip.MustParsePrefix("10.96.0.0/16"),
		nodeBits: 24, mostBits: 7, maskFlag: "node-cidr-mask-size-ipv4"}
	family6 = family{pods: netip.MustParsePrefix("fd00:10:244::/56"), services: netip.MustParsePrefix("fd00:10:96::/112"),
		nodeBits: 64, mostBits: 8, maskFlag: "node-cidr-mask-size-ipv6"}
)

// ranges are a family's in a cluster of some size.
type ranges struct {
	pods, services netip.Prefix
	nodeBits       int
	maskFlag       string // that tells the controller manager of nodeBits; "" where it is the default
}

// nodes is how many nodes have ranges of pod addresses.
func (r ranges) nodes() int { return 1 << min(r.nodeBits-r.pods.Bits(), maxNodeBits) }

// node is the range of the i-th node where no controller allocates.
func (r ranges) node(i int) netip.Prefix {
	bytes := r.pods.Masked().Addr().AsSlice()
	shift := 8*len(bytes) - r.nodeBits
	for at := len(bytes) - 1 - shift/8; at >= 0 && i > 0; at-- {
		part := i << (shift % 8) // of which the low byte belongs here
		bytes[at] |= byte(part)
		i, shift = part>>8, 0
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, r.nodeBits)
}

// maxNodeBits bounds the ranges of nodes: the node IPAM controller gives out no more of one range.
const maxNodeBits = 16

// of is the family's ranges for at least so many nodes. A wider range comes first; only then have nodes fewer addresses
// each. A /25 still has more than the pods that a kubelet takes.
func (f family) of(nodes int) ranges {
	room := min(bits.Len(uint(max(nodes, 1)-1)), maxNodeBits)
	wider := max(room-(f.nodeBits-f.pods.Bits()), 0)
	r := ranges{services: f.services, nodeBits: f.nodeBits}
	if narrower := wider - f.mostBits; narrower > 0 {
		wider, r.nodeBits, r.maskFlag = f.mostBits, f.nodeBits+narrower, f.maskFlag
	}
	r.pods = netip.PrefixFrom(f.pods.Addr(), f.pods.Bits()-wider).Masked()
	return r
}

// room is how many nodes the ranges are made for: twice those that were asked for, as more may be added.
func (c *config) room() int {
	if c.roomSet > 0 {
		return c.roomSet
	}
	return min(2*c.nodes, max(c.nodes, 1<<maxNodeBits))
}

// ranges are those of the cluster's families, the primary one first.
func (c *config) ranges() []ranges {
	switch c.family {
	case IPv6:
		return []ranges{family6.of(c.room())}
	case DualStack:
		return []ranges{family4.of(c.room()), family6.of(c.room())}
	default:
		return []ranges{family4.of(c.room())}
	}
}

// eachRange is f of the ranges of each family, the primary one first.
func (c *config) eachRange(f func(ranges) string) []string {
	var out []string
	for _, r := range c.ranges() {
		out = append(out, f(r))
	}
	return out
}

func (c *config) podCIDRs() []string {
	return c.eachRange(func(r ranges) string { return r.pods.String() })
}

func (c *config) serviceCIDRs() []string {
	return c.eachRange(func(r ranges) string { return r.services.String() })
}

// nodePodCIDRs are the ranges of the i-th node, for a cluster in which no controller allocates them.
func (c *config) nodePodCIDRs(i int) []string {
	return c.eachRange(func(r ranges) string { return r.node(i).String() })
}

// nodeCIDRArgs have the controller manager give nodes their ranges of pod addresses.
func (c *config) nodeCIDRArgs() []string {
	args := []string{"--allocate-node-cidrs=true", "--cluster-cidr=" + joined(c.podCIDRs())}
	for _, r := range c.ranges() {
		if r.maskFlag != "" {
			args = append(args, fmt.Sprintf("--%s=%d", r.maskFlag, r.nodeBits))
		}
	}
	return args
}

// checkRanges refuses more nodes than have ranges of pod addresses: those of the cluster, or those that arguments of
// the controller manager give.
func (c *config) checkRanges(nodes int) error {
	if !c.runs(ControllerManager) {
		return c.fit(nodes, c.ranges(), "")
	}
	given, err := c.givenRanges()
	if err != nil {
		return err
	}
	from := ""
	if len(c.args[ControllerManager]) > 0 {
		from = fmt.Sprintf(" of %s", ControllerManager)
	}
	return c.fit(nodes, given, from)
}

// fit names the component from whose arguments the ranges come, if any.
func (c *config) fit(nodes int, all []ranges, from string) error {
	for _, r := range all {
		if nodes > r.nodes() {
			return fmt.Errorf("%d nodes: the pod addresses --cluster-cidr=%s%s, cut into a /%d per node, are enough for %d",
				nodes, r.pods, from, r.nodeBits, r.nodes())
		}
	}
	return nil
}

// givenRanges are those that the controller manager gives out with its arguments; none if it gives out none. Other
// faults of the arguments are told by the controller manager.
func (c *config) givenRanges() ([]ranges, error) {
	fs := pflag.NewFlagSet(string(ControllerManager), pflag.ContinueOnError)
	fs.ParseErrorsAllowlist.UnknownFlags = true
	fs.Usage = func() {}
	allocate := fs.Bool("allocate-node-cidrs", true, "")
	cidrs := fs.StringSlice("cluster-cidr", c.podCIDRs(), "")
	mask := fs.Int("node-cidr-mask-size", 0, "")
	mask4 := fs.Int(family4.maskFlag, family4.nodeBits, "")
	mask6 := fs.Int(family6.maskFlag, family6.nodeBits, "")
	if err := fs.Parse(append(c.nodeCIDRArgs(), c.args[ControllerManager]...)); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", ControllerManager, err)
	}
	if !*allocate {
		return nil, nil // nodes get their ranges elsewhere
	}
	var all []ranges
	for _, text := range *cidrs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("arguments of %s: --cluster-cidr: %w", ControllerManager, err)
		}
		r := ranges{pods: prefix, nodeBits: cmp.Or(*mask, *mask4)}
		if !prefix.Addr().Is4() {
			r.nodeBits = cmp.Or(*mask, *mask6)
		}
		if r.nodeBits < prefix.Bits() {
			return nil, fmt.Errorf("arguments of %s: --cluster-cidr=%s has no range of /%d for a node", ControllerManager, text,
				r.nodeBits)
		}
		all = append(all, r)
	}
	return all, nil
}

// serviceIPs are the n-th addresses of the ranges of Services.
func (c *config) serviceIPs(n int) []string {
	return c.eachRange(func(r ranges) string {
		ip := r.services.Addr()
		for range n {
			ip = ip.Next()
		}
		return ip.String()
	})
}

// nodeIPs are a member's addresses in the cluster's families, of those that it has.
func (l *layout) nodeIPs(member string) []string {
	want := func(ip string) bool {
		is4 := netip.MustParseAddr(ip).Is4()
		return l.config.family == DualStack || is4 == (l.config.family != IPv6)
	}
	return slices.DeleteFunc(slices.Clone(l.addressing.IPs(member)), func(ip string) bool { return !want(ip) })
}

func joined(list []string) string { return strings.Join(list, ",") }
