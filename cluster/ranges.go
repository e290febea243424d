package cluster

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
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

// ranges are a family's; those of IPv4 are kubeadm's and kind's. The addresses exist only inside the nodes.
type ranges struct {
	pods, services string
	node           string // the pods of the i-th node where no controller allocates, for Sprintf
}

var (
	ranges4 = ranges{pods: "10.244.0.0/16", services: "10.96.0.0/16", node: "10.244.%d.0/24"}
	ranges6 = ranges{pods: "fd00:10:244::/56", services: "fd00:10:96::/112", node: "fd00:10:244:%x::/64"}
)

// ranges are those of the cluster's families, the primary one first.
func (c *config) ranges() []ranges {
	switch c.family {
	case IPv6:
		return []ranges{ranges6}
	case DualStack:
		return []ranges{ranges4, ranges6}
	default:
		return []ranges{ranges4}
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
	return c.eachRange(func(r ranges) string { return r.pods })
}

func (c *config) serviceCIDRs() []string {
	return c.eachRange(func(r ranges) string { return r.services })
}

// nodePodCIDRs are the ranges of the i-th node, for a cluster in which no controller allocates them.
func (c *config) nodePodCIDRs(i int) []string {
	return c.eachRange(func(r ranges) string { return fmt.Sprintf(r.node, i) })
}

// serviceIPs are the n-th addresses of the ranges of Services.
func (c *config) serviceIPs(n int) []string {
	return c.eachRange(func(r ranges) string {
		ip := netip.MustParsePrefix(r.services).Addr()
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
