package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/moby/moby/client"

	"quintet.dev/quintet/cluster/internal/backend"
)

// Add chooses addresses that no container of the cluster's network has, also of a cluster that another process started.
// What other processes add meanwhile is refused by the engine.
func (c *Containers) Add(ctx context.Context, m backend.Placement) (backend.Addressing, error) {
	if err := c.adopt(ctx); err != nil {
		return nil, fmt.Errorf("add %s: %w", m.Name, err)
	}
	made, host := c.subnets(), c.engine()
	taken, err := c.takenAddresses(ctx)
	if err != nil {
		return nil, err
	}
	ips, err := made.free(taken)
	if err != nil {
		return nil, fmt.Errorf("add %s: %w", m.Name, err)
	}
	p := place{ips: ips}
	if m.Port != 0 {
		free, err := newPorts(ctx, c.docker, host)
		if err != nil {
			return nil, err
		}
		if p.published, err = free.next(); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[m.Name] = p
	return addressing{c}, nil
}

// adopt finds the network of the cluster. In one that another process started, what this one makes is labelled as the
// rest, so that it is removed with the cluster.
func (c *Containers) adopt(ctx context.Context) error {
	inspected, made, err := c.inspectNetwork(ctx)
	if err != nil {
		return err
	}
	host, err := findHost(ctx, c.docker, c.provider, made.gateway())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.networkID == "" {
		labels := inspected.Labels
		c.adopted = map[string]string{LabelCluster: c.config.Cluster, LabelOwner: labels[LabelOwner],
			LabelRun: labels[LabelRun]}
		c.privileges = likelyPrivileges(host)
	}
	c.networkID, c.network, c.host = inspected.ID, made, host
	return nil
}

// takenAddresses are those of the cluster's containers, running or not.
func (c *Containers) takenAddresses(ctx context.Context) (map[netip.Addr]bool, error) {
	found, err := find(ctx, c.docker, LabelCluster+"="+c.config.Cluster)
	if err != nil {
		return nil, err
	}
	taken := map[netip.Addr]bool{}
	for _, member := range found.members {
		inspected, err := c.docker.ContainerInspect(ctx, member.ID, client.ContainerInspectOptions{})
		if ignoreGone(err) != nil {
			return nil, fmt.Errorf("inspect container %s: %w", member.ID, err)
		}
		if err != nil || inspected.Container.NetworkSettings == nil {
			continue
		}
		for _, endpoint := range inspected.Container.NetworkSettings.Networks {
			if endpoint.IPAMConfig != nil {
				taken[endpoint.IPAMConfig.IPv4Address] = true
			}
			taken[endpoint.IPAddress] = true
		}
	}
	return taken, nil
}

// free are the addresses of the first member that is not there.
func (s subnets) free(taken map[netip.Addr]bool) ([]netip.Addr, error) {
	for i := range maxMembers {
		if ips := s.member(i); !taken[ips[0]] {
			return ips, nil
		}
	}
	return nil, fmt.Errorf("a cluster of containers has at most %d members", maxMembers)
}

// Remove removes a member's container and its volumes.
func (c *Containers) Remove(ctx context.Context, i backend.Instance) error {
	own, ok := i.(*instance)
	if !ok {
		return errors.New("not a container of this cluster: " + i.Name())
	}
	if err := removeContainer(ctx, c.docker, own.id); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.members, i.Name())
	return nil
}
