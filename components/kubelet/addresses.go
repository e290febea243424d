package kubelet

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	nodeutil "k8s.io/component-helpers/node/util"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// parseNodeIPs reads one address, or two of different families, the primary first.
func parseNodeIPs(text string) ([]net.IP, error) {
	ips, invalid, err := nodeutil.ParseNodeIPArgument(text, "")
	if err != nil {
		return nil, err
	}
	if len(invalid) > 0 {
		return nil, fmt.Errorf("not an IP address: %s", strings.Join(invalid, ", "))
	}
	return ips, nil
}

// splitCIDRs reads one range, or two of different families, the primary first.
func splitCIDRs(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	cidrs := strings.Split(text, ",")
	families := map[bool]bool{}
	for i, cidr := range cidrs {
		cidrs[i] = strings.TrimSpace(cidr)
		prefix, err := netip.ParsePrefix(cidrs[i])
		if err != nil {
			return nil, err
		}
		if families[prefix.Addr().Is4()] {
			return nil, fmt.Errorf("there may be one range of each family")
		}
		families[prefix.Addr().Is4()] = true
	}
	return cidrs, nil
}

// addresses are the node's in the API and the IP addresses among them, that of the primary family first.
func (k *Kubelet) addresses(simulated runtime.Simulated) ([]v1.NodeAddress, []string, error) {
	ips, err := parseNodeIPs(k.config.NodeIP)
	if err != nil {
		return nil, nil, fmt.Errorf("--node-ip %q: %w", k.config.NodeIP, err)
	}
	if len(ips) == 0 && simulated.Network {
		ips = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	if len(ips) == 0 || ips[0].IsUnspecified() {
		var family net.IP // none: IPv4 where there is
		if len(ips) > 0 {
			family = ips[0]
		}
		found, err := utilnet.ResolveBindAddress(family)
		if err != nil {
			return nil, nil, fmt.Errorf("address of the node (give --node-ip): %w", err)
		}
		ips = []net.IP{found}
	}
	var addresses []v1.NodeAddress
	var texts []string
	for _, ip := range ips {
		addresses = append(addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
		texts = append(texts, ip.String())
	}
	return append(addresses, v1.NodeAddress{Type: v1.NodeHostName, Address: k.name}), texts, nil
}
