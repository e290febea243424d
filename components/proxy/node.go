package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"quintet.dev/quintet/components/proxy/nft"
)

// localTraffic returns conditions of nftables for traffic that comes from local pods, and for all other; both are ""
// where it is unknown.
func localTraffic(c *Config, family v1.IPFamily, node *v1.Node) (local, other string, err error) {
	both := func(what, value string) (string, string, error) {
		return what + " " + value, what + " != " + value, nil
	}
	byRange := func(ranges []string) (string, string, error) {
		for _, text := range ranges {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return "", "", fmt.Errorf("range of pods %q: %w", text, err)
			}
			if familyOf(prefix.Addr()) == family {
				source := map[v1.IPFamily]string{v1.IPv4Protocol: "ip saddr", v1.IPv6Protocol: "ip6 saddr"}[family]
				return both(source, prefix.Masked().String())
			}
		}
		return "", "", nil
	}
	switch c.DetectLocalMode {
	case "ClusterCIDR":
		if c.ClusterCIDR == "" {
			return "", "", nil
		}
		return byRange(strings.Split(c.ClusterCIDR, ","))
	case "NodeCIDR":
		if node == nil {
			return "", "", nil
		}
		return byRange(node.Spec.PodCIDRs)
	case "BridgeInterface":
		if c.PodBridge == "" {
			return "", "", fmt.Errorf("detectLocal.bridgeInterface is required for detectLocalMode %s",
				c.DetectLocalMode)
		}
		return both("iifname", fmt.Sprintf("%q", c.PodBridge))
	case "InterfaceNamePrefix":
		if c.PodPrefix == "" {
			return "", "", fmt.Errorf("detectLocal.interfaceNamePrefix is required for detectLocalMode %s",
				c.DetectLocalMode)
		}
		return both("iifname", fmt.Sprintf("%q", c.PodPrefix+"*"))
	default:
		return "", "", fmt.Errorf("detectLocalMode %q: use ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
			c.DetectLocalMode)
	}
}

// tableConfig derives what a family's table needs from the configuration, the node and the ranges of cluster IPs.
func (p *Proxy) tableConfig(family v1.IPFamily, node *v1.Node, cidrs serviceCIDRs) (nft.Config, error) {
	local, other, err := localTraffic(&p.config, family, node)
	if err != nil {
		return nft.Config{}, err
	}
	ips, all, err := p.nodePortIPs(family, node)
	if err != nil {
		return nft.Config{}, err
	}
	return nft.Config{
		Family: family, MasqueradeBit: int(p.config.MasqueradeBit), MasqueradeAll: p.config.MasqueradeAll,
		LocalTraffic: local, NotLocalTraffic: other, NodePortIPs: ips, AllNodePortIPs: all,
		ServiceCIDRs: cidrs.of(family),
	}, nil
}

// nodePortIPs are the addresses that serve node ports; all tells that every one of the machine does, as for a family
// that neither --nodeport-addresses nor the node has addresses of.
func (p *Proxy) nodePortIPs(family v1.IPFamily, node *v1.Node) (ips []netip.Addr, all bool, err error) {
	if len(p.config.NodePorts) == 0 || p.config.NodePorts[0] == "primary" {
		for _, ip := range p.nodeIPs(node) {
			if familyOf(ip) == family && !ip.IsLoopback() {
				return []netip.Addr{ip}, false, nil
			}
		}
		return nil, true, nil
	}
	all = true
	for _, text := range p.config.NodePorts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, false, err
		}
		if familyOf(prefix.Addr()) != family {
			continue
		}
		if prefix.Bits() == 0 {
			return nil, true, nil
		}
		within, err := machineIPs(prefix)
		if err != nil {
			return nil, false, err
		}
		ips, all = append(ips, within...), false
	}
	return ips, all, nil
}

// nodeIPs are the node's addresses, at most one of a family, the primary one first: --bind-address, those of the Node
// object or, without any, the loopback address.
func (p *Proxy) nodeIPs(node *v1.Node) []netip.Addr {
	if ips := p.knownNodeIPs(node); len(ips) > 0 {
		return ips
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
}

// knownNodeIPs are the known nodeIPs; none if the node's addresses are not known yet.
func (p *Proxy) knownNodeIPs(node *v1.Node) []netip.Addr {
	var all []netip.Addr
	if ip, err := netip.ParseAddr(p.config.BindAddress); err == nil && !ip.IsUnspecified() {
		all = append(all, ip.Unmap())
	}
	if node != nil {
		for _, kind := range []v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP} {
			for _, address := range node.Status.Addresses {
				if ip, err := netip.ParseAddr(address.Address); err == nil && address.Type == kind {
					all = append(all, ip.Unmap())
				}
			}
		}
	}
	var ips []netip.Addr
	for _, ip := range all {
		if !slices.ContainsFunc(ips, func(known netip.Addr) bool { return known.Is4() == ip.Is4() }) {
			ips = append(ips, ip)
		}
	}
	return ips
}

func familyOf(ip netip.Addr) v1.IPFamily {
	if ip.Is4() {
		return v1.IPv4Protocol
	}
	return v1.IPv6Protocol
}

// machineIPs are the addresses of the machine's interfaces in a range.
func machineIPs(prefix netip.Prefix) ([]netip.Addr, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var ips []netip.Addr
	for _, address := range addresses {
		if of, err := netip.ParsePrefix(address.String()); err == nil && prefix.Contains(of.Addr()) {
			ips = append(ips, of.Addr())
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Compact(ips), nil
}

// serviceCIDRs are the ranges that cluster IPs are allocated from, by the name of the ServiceCIDR.
type serviceCIDRs map[string][]netip.Prefix

// set takes a ServiceCIDR in.
func (c serviceCIDRs) set(object *networkingv1.ServiceCIDR) {
	var ranges []netip.Prefix
	for _, text := range object.Spec.CIDRs {
		if prefix, err := netip.ParsePrefix(text); err == nil { // the API server admits no others
			ranges = append(ranges, prefix.Masked())
		}
	}
	c[object.Name] = ranges
}

// of are the ranges of a family, sorted and without duplicates.
func (c serviceCIDRs) of(family v1.IPFamily) []netip.Prefix {
	var ranges []netip.Prefix
	for _, of := range c {
		for _, prefix := range of {
			if familyOf(prefix.Addr()) == family {
				ranges = append(ranges, prefix)
			}
		}
	}
	slices.SortFunc(ranges, netip.Prefix.Compare)
	return slices.Compact(ranges)
}
