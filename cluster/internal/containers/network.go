package containers

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// Clusters' networks are the /24 blocks of 10.213.0.0/16. Members have fixed addresses, so that certificates and
// arguments can name them before they start and a restart keeps them; Docker allows that only where it was given the
// subnet.
const (
	blocks     = 256
	maxMembers = 250
)

func block(i uint32) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(i % blocks), 0}), 24)
}

// createNetwork makes the cluster's network in the first free block, starting at one that depends on its name so that
// clusters which start at once rarely compete.
func (c *Containers) createNetwork(ctx context.Context) (netip.Prefix, error) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(c.config.Cluster))
	first := hash.Sum32()
	var last error
	for i := range uint32(blocks) {
		subnet := block(first + i)
		_, err := c.docker.NetworkCreate(ctx, c.networkName(), client.NetworkCreateOptions{
			Driver: "bridge",
			IPAM:   &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet, Gateway: subnet.Addr().Next()}}},
			Labels: c.labels(),
		})
		if err == nil {
			return subnet, nil
		}
		if !taken(err) {
			return netip.Prefix{}, c.explainNetwork(err)
		}
		last = err
	}
	return netip.Prefix{}, fmt.Errorf("create network %s: no free block in 10.213.0.0/16; `quintet down --all` frees what "+
		"old clusters hold: %w", c.networkName(), last)
}

// explainNetwork says what to do where a network can't be made.
func (c *Containers) explainNetwork(err error) error {
	if strings.Contains(err.Error(), "already exists") {
		return fmt.Errorf("a cluster %s is being started by another process; choose another name: %w", c.config.Cluster, err)
	}
	return fmt.Errorf("create network %s: %w", c.networkName(), err)
}

// taken tells whether the engine refused a subnet because something else uses it.
func taken(err error) bool {
	message := err.Error()
	return !errors.Is(err, context.Canceled) &&
		(strings.Contains(message, "overlaps") || strings.Contains(message, "conflicts with"))
}

func (c *Containers) labels() map[string]string {
	return map[string]string{LabelCluster: c.config.Cluster, LabelOwner: c.config.Owner, LabelRun: c.start}
}
