package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/proxy/nft"
)

// localTraffic returns conditions of nftables for traffic that comes from local pods, and for all other; both are ""
// where that can't be told.
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
			if prefix.Addr().Is4() == (family == v1.IPv4Protocol) {
				return both(map[bool]string{true: "ip saddr", false: "ip6 saddr"}[prefix.Addr().Is4()], prefix.Masked().String())
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
			return "", "", fmt.Errorf("detectLocal.bridgeInterface is required for detectLocalMode %s", c.DetectLocalMode)
		}
		return both("iifname", fmt.Sprintf("%q", c.PodBridge))
	case "InterfaceNamePrefix":
		if c.PodPrefix == "" {
			return "", "", fmt.Errorf("detectLocal.interfaceNamePrefix is required for detectLocalMode %s", c.DetectLocalMode)
		}
		return both("iifname", fmt.Sprintf("%q", c.PodPrefix+"*"))
	default:
		return "", "", fmt.Errorf("detectLocalMode %q: use ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
			c.DetectLocalMode)
	}
}

// tableConfig derives what a family's table needs from the configuration and the node.
func (p *Proxy) tableConfig(family v1.IPFamily, node *v1.Node) (nft.Config, error) {
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
	}, nil
}

// nodePortIPs are the addresses that serve node ports; all tells that every one of the machine does.
func (p *Proxy) nodePortIPs(family v1.IPFamily, node *v1.Node) (ips []netip.Addr, all bool, err error) {
	if len(p.config.NodePorts) == 0 || p.config.NodePorts[0] == "primary" {
		for _, ip := range p.nodeIPs(node) {
			if ip.Is4() == (family == v1.IPv4Protocol) {
				return []netip.Addr{ip}, false, nil
			}
		}
		return nil, false, nil
	}
	for _, text := range p.config.NodePorts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, false, err
		}
		if prefix.Addr().Is4() != (family == v1.IPv4Protocol) {
			continue
		}
		if prefix.Bits() == 0 {
			return nil, true, nil
		}
		within, err := machineIPs(prefix)
		if err != nil {
			return nil, false, err
		}
		ips = append(ips, within...)
	}
	return ips, false, nil
}

// nodeIPs are the node's internal addresses or, without any, the address to bind to.
func (p *Proxy) nodeIPs(node *v1.Node) []netip.Addr {
	var ips []netip.Addr
	if node != nil {
		for _, address := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(address.Address); err == nil && address.Type == v1.NodeInternalIP {
				ips = append(ips, ip)
			}
		}
	}
	if len(ips) == 0 {
		if ip, err := netip.ParseAddr(p.config.BindAddress); err == nil && !ip.IsUnspecified() {
			ips = append(ips, ip)
		}
	}
	return ips
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
	return ips, nil
}
