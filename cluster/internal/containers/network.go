package containers

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"strings"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// Clusters' networks are the /24 blocks of 10.213.0.0/16. Members have fixed addresses, so that certificates and
// arguments can name them before they start and a restart keeps them; Docker allows that only where it was given the
// subnet.
const (
	blocks      = 256
	firstMember = 2 // in its block; .1 is the gateway's
	firstFree   = 176
	firstPooled = 192
	maxMembers  = firstFree - firstMember
)

// subnets are the blocks of one cluster's network: members' addresses, then those that Docker gives to containers of
// others on it, then the pools.
type subnets struct {
	v4 netip.Prefix
	v6 netip.Prefix // not valid in a cluster of IPv4 alone
}

func block(i uint32, v6 bool) subnets {
	n := byte(i % blocks)
	s := subnets{v4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, n, 0}), 24)}
	if v6 {
		s.v6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 3: 0x10, 4: 0x02, 5: 0x13, 7: n}), 64)
	}
	return s
}

// address is the n-th of a block.
func address(in netip.Prefix, n byte) netip.Addr {
	bytes := in.Addr().AsSlice()
	bytes[len(bytes)-1] = n
	ip, _ := netip.AddrFromSlice(bytes)
	return ip
}

// each is f of the block of each family.
func each[T any](s subnets, f func(block netip.Prefix) T) []T {
	out := []T{f(s.v4)}
	if s.v6.IsValid() {
		out = append(out, f(s.v6))
	}
	return out
}

// member is the addresses of the i-th member.
func (s subnets) member(i int) []netip.Addr {
	return each(s, func(block netip.Prefix) netip.Addr { return address(block, byte(firstMember+i)) })
}

// pools are the addresses that neither members nor Docker's own choice get.
func (s subnets) pools() []netip.Prefix {
	return each(s, func(block netip.Prefix) netip.Prefix {
		return netip.PrefixFrom(address(block, firstPooled), block.Addr().BitLen()-6)
	})
}

// gateway is the address that the engine's host has on the network.
func (s subnets) gateway() netip.Addr { return address(s.v4, 1) }

// HostAddress is the address of this machine on the cluster's network, at which containers reach this process. Only
// where the engine's containers are on this machine there is one.
func (c *Containers) HostAddress(ctx context.Context) (string, error) {
	made := c.subnets()
	if !made.v4.IsValid() { // another process started the cluster
		var err error
		if _, made, err = c.inspectNetwork(ctx); err != nil {
			return "", err
		}
	}
	if gateway := made.gateway(); isOwn(gateway) {
		return gateway.String(), nil
	}
	return "", fmt.Errorf("containers of cluster %s can't reach this process: the Docker engine is on another machine "+
		"(%s is "+
		"no address of this one)", c.config.Cluster, made.gateway())
}

// inspectNetwork finds the network of a cluster that runs.
func (c *Containers) inspectNetwork(ctx context.Context) (network.Inspect, subnets, error) {
	run, err := c.findRun(ctx)
	if err != nil {
		return network.Inspect{}, subnets{}, err
	}
	name := c.networkName(run)
	inspected, err := c.docker.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
	if err != nil {
		return network.Inspect{}, subnets{}, err
	}
	var made subnets
	for _, config := range inspected.Network.IPAM.Config {
		if config.Subnet.Addr().Is4() {
			made.v4 = config.Subnet
		} else {
			made.v6 = config.Subnet
		}
	}
	if !made.v4.IsValid() {
		return network.Inspect{}, subnets{}, fmt.Errorf("the network %s has no subnet of IPv4", name)
	}
	return inspected.Network, made, nil
}

// findRun tells which start made the cluster, which may be another process's.
func (c *Containers) findRun(ctx context.Context) (string, error) {
	if c.config.Run != "" {
		return c.config.Run, nil
	}
	found, err := find(ctx, c.docker, LabelCluster+"="+c.config.Cluster)
	if err != nil {
		return "", err
	}
	if len(found.members) == 0 {
		return "", fmt.Errorf("cluster %s has no containers", c.config.Cluster)
	}
	return found.members[0].Labels[LabelRun], nil
}

// ipam tells Docker of the blocks.
func (s subnets) ipam() *network.IPAM {
	return &network.IPAM{Config: each(s, func(block netip.Prefix) network.IPAMConfig {
		return network.IPAMConfig{
			Subnet: block, Gateway: address(block, 1),
			IPRange: netip.PrefixFrom(address(block, firstFree), block.Addr().BitLen()-4),
		}
	})}
}

// createNetwork makes the cluster's network in the first free block, starting at one that depends on its name so that
// clusters which start at once rarely compete.
func (c *Containers) createNetwork(ctx context.Context) (id string, made subnets, err error) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(c.config.Cluster))
	first, name := hash.Sum32(), c.networkName(c.config.Run)
	var last error
	for i := range uint32(blocks) {
		made := block(first+i, c.config.IPv6)
		created, err := c.docker.NetworkCreate(ctx, name, client.NetworkCreateOptions{
			Driver:     "bridge",
			EnableIPv6: &c.config.IPv6,
			IPAM:       made.ipam(),
			Labels:     c.labels(),
		})
		if err == nil {
			return created.ID, made, nil
		}
		if !taken(err) {
			return "", subnets{}, fmt.Errorf("create network %s: %w", name, err)
		}
		last = err
	}
	return "", subnets{}, fmt.Errorf("create network %s: no free block in 10.213.0.0/16; `quintet down --all` frees what "+
		"old clusters hold: %w", name, last)
}

// taken tells whether the engine refused a subnet because something else uses it.
func taken(err error) bool {
	message := err.Error()
	return !errors.Is(err, context.Canceled) &&
		(strings.Contains(message, "overlaps") || strings.Contains(message, "conflicts with"))
}

func (c *Containers) labels() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.adopted != nil {
		return maps.Clone(c.adopted)
	}
	return map[string]string{LabelCluster: c.config.Cluster, LabelOwner: c.config.Owner, LabelRun: c.config.Run}
}
