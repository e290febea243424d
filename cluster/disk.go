package cluster

import (
	"errors"
	"fmt"

	"quintet.dev/quintet/cluster/internal/backend"
)

const (
	// disk is the component of members that keep the small disk of another one mounted.
	disk Component = "disk"
	// leastDisk is what etcd needs to start, and leastNodeDisk what a node does, with its images.
	leastDisk     = 128 << 20
	leastNodeDisk = 1 << 30
	// nodeDisk is where a node's disk is mounted; node-init has directories of the kubelet and the engine lie there.
	nodeDisk = "/var/lib/quintet/disk"
)

// WithDiskSize gives each etcd member a disk of its own of so many bytes, in memory, at least 128 MiB, so that
// Cluster.FillDisk can fill it: without it, members share the machine's disk, which no test fills. The disk outlives
// restarts of the member.
func WithDiskSize(bytes int64) Option {
	return func(c *config) error {
		if bytes < leastDisk {
			return fmt.Errorf("disk size of %d bytes: etcd needs at least %d", bytes, leastDisk)
		}
		c.diskSize = bytes
		return nil
	}
}

// WithNodeDisk gives each node a disk of its own of so many bytes, at least 1 GiB, for images, containers, emptyDirs
// and all else that the kubelet keeps. What the engine writes down for itself, Docker's log files among it, and the
// volumes of the default StorageClass lie on the machine's. The node declares it as its ephemeral storage and evicts
// pods by Kubernetes' own thresholds, where nodes that share the machine's disk evict none for it; Cluster.FillDisk can
// fill it. The disk lies in the memory of the Docker engine's machine, so that what pods write counts against their
// memory limits, and outlives restarts of the node.
func WithNodeDisk(bytes int64) Option {
	return func(c *config) error {
		if bytes < leastNodeDisk {
			return fmt.Errorf("node disk of %d bytes: a node needs at least %d", bytes, leastNodeDisk)
		}
		c.nodeDisk = bytes
		return nil
	}
}

func (c *config) checkDisk() error {
	switch {
	case c.nodeDisk > 0 && !c.runs(Node):
		return fmt.Errorf("node disk: %s", c.whyMissing(Node))
	case c.nodeDisk > 0 && !c.hasPodNetwork():
		return errors.New("node disk: hollow nodes write to no disk; it takes nodes in containers")
	case c.diskSize == 0:
		return nil
	case c.inProcess || c.programs[Etcd] != nil:
		return errors.New("disk size: etcd in this process has the disk of this machine; it takes a member in a container")
	case !c.runs(Etcd):
		return fmt.Errorf("disk size: %s", c.whyMissing(Etcd))
	}
	return nil
}

func diskOf(member string) string { return "disk-" + member }

// diskDirs are where members have disks of their own, by component.
var diskDirs = map[Component]string{Etcd: etcdData, Node: nodeDisk}

// diskSizeOf is the size of the disk that each member of a component has of its own, 0 for none.
func (c *config) diskSizeOf(component Component) int64 {
	switch component {
	case Etcd:
		return c.diskSize
	case Node:
		return c.nodeDisk
	}
	return 0
}

// withDisk is a member, after the one that keeps its disk mounted if it has a disk of its own.
func (l *layout) withDisk(member backend.Member) []backend.Member {
	component := Component(member.Component)
	size := l.config.diskSizeOf(component)
	if size == 0 {
		return []backend.Member{member}
	}
	keeper := backend.Member{Name: diskOf(member.Name), Component: string(disk), Image: l.config.image(faultInjector),
		Program: string(faultInjector), Args: []string{"--hold"}, Data: []string{diskDirs[component]}, DataSize: size,
		Network: backend.NetworkNone}
	member.Data, member.DataFrom = nil, keeper.Name
	return []backend.Member{keeper, member}
}
