package docker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// SetPodCIDRs implements runtime.Runtime: it makes the bridge network of the pods, or recreates it when it has
// other subnets.
func (e *Engine) SetPodCIDRs(ctx context.Context, cidrs []string) error {
	subnets := make([]netip.Prefix, 0, len(cidrs))
	for _, cidr := range cidrs {
		subnet, err := netip.ParsePrefix(cidr)
		if err != nil {
			return fmt.Errorf("pod CIDR %q: %w", cidr, err)
		}
		if len(subnets) > 0 && subnets[0].Addr().Is4() == subnet.Addr().Is4() || len(subnets) > 1 {
			return fmt.Errorf("pod CIDRs %v: there may be one of each family", cidrs)
		}
		subnets = append(subnets, subnet.Masked())
	}
	if err := e.setNetwork(ctx, subnets); err != nil {
		return err
	}
	e.mu.Lock()
	e.podCIDRs = subnets
	e.mu.Unlock()
	return nil
}

func (e *Engine) setNetwork(ctx context.Context, subnets []netip.Prefix) error {
	found, err := e.api.NetworkInspect(ctx, e.options.Network, client.NetworkInspectOptions{})
	switch {
	case err == nil && hasSubnets(found.Network.IPAM.Config, subnets):
		return nil
	case err == nil:
		if _, err := e.api.NetworkRemove(ctx, found.Network.ID, client.NetworkRemoveOptions{}); err != nil {
			return fmt.Errorf("network %s has other subnets than %v and can't be removed: %w", e.options.Network,
				subnets, err)
		}
	case !errdefs.IsNotFound(err):
		return err
	}
	_, err = e.api.NetworkCreate(ctx, e.options.Network, e.networkOptions(subnets))
	if errdefs.IsAlreadyExists(err) || errdefs.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make pod network %s on %v: %w", e.options.Network, subnets, err)
	}
	return nil
}

// hasSubnets tells whether a network has the subnets, and no other of IPv6: an engine gives every network IPv4.
func hasSubnets(config []network.IPAMConfig, subnets []netip.Prefix) bool {
	for _, subnet := range subnets {
		if !slices.ContainsFunc(config, func(c network.IPAMConfig) bool { return c.Subnet == subnet }) {
			return false
		}
	}
	return !slices.ContainsFunc(config, func(c network.IPAMConfig) bool {
		return c.Subnet.Addr().Is6() && !slices.Contains(subnets, c.Subnet)
	})
}

func (e *Engine) networkOptions(subnets []netip.Prefix) client.NetworkCreateOptions {
	options := client.NetworkCreateOptions{
		Driver: "bridge", IPAM: &network.IPAM{}, Options: map[string]string{},
		Labels: map[string]string{labelNode: e.options.Node},
	}
	for key, value := range e.options.Labels {
		options.Labels[key] = value
	}
	if e.options.Bridge != "" {
		options.Options["com.docker.network.bridge.name"] = e.options.Bridge
	}
	has4, has6 := false, false
	for _, subnet := range subnets {
		has4, has6 = has4 || subnet.Addr().Is4(), has6 || subnet.Addr().Is6()
		options.IPAM.Config = append(options.IPAM.Config,
			network.IPAMConfig{Subnet: subnet, Gateway: subnet.Addr().Next()})
	}
	if has6 {
		options.EnableIPv6 = &has6
	}
	if !has4 && e.atLeast(ipv4Optional) {
		options.EnableIPv4 = &has4
	}
	return options
}

// ipv4Optional is the minor version of the first API that makes networks without IPv4. An older engine gives pods of an
// IPv6 cluster an IPv4 address, too, which their status leaves out.
const ipv4Optional = 48

// enableIPv6 makes the sandbox use IPv6 where pods have it, whatever the machine does by default.
func (e *Engine) enableIPv6(host *container.HostConfig) {
	const sysctl = "net.ipv6.conf.all.disable_ipv6"
	e.mu.Lock()
	has6 := slices.ContainsFunc(e.podCIDRs, func(p netip.Prefix) bool { return p.Addr().Is6() })
	e.mu.Unlock()
	if _, set := host.Sysctls[sysctl]; !has6 || set {
		return
	}
	sysctls := map[string]string{sysctl: "0"}
	for name, value := range host.Sysctls {
		sysctls[name] = value
	}
	host.Sysctls = sysctls
}

// addresses are those on the pod network, of the families that pods have and in the order of the pod CIDRs.
func (e *Engine) addresses(networks map[string]*network.EndpointSettings) []string {
	e.mu.Lock()
	ranges := e.podCIDRs
	e.mu.Unlock()
	return orderedAddresses(networks, ranges)
}

// orderedAddresses returns IPv4 before IPv6 where the ranges are not known yet.
func orderedAddresses(networks map[string]*network.EndpointSettings, ranges []netip.Prefix) []string {
	families := []bool{false, true}
	if len(ranges) > 0 {
		families = nil
		for _, prefix := range ranges {
			families = append(families, prefix.Addr().Is6())
		}
	}
	var ips []string
	for _, is6 := range families {
		for _, endpoint := range networks {
			ip := endpoint.IPAddress
			if is6 {
				ip = endpoint.GlobalIPv6Address
			}
			if ip.IsValid() && !ip.IsUnspecified() {
				ips = append(ips, ip.String())
			}
		}
	}
	return ips
}
