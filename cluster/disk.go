package cluster

import (
	"errors"
	"fmt"

	"quintet.dev/quintet/cluster/internal/backend"
)

const (
	// disk is the component of members that keep the small disk of another one mounted.
	disk Component = "disk"
	// leastDisk is what etcd needs to start.
	leastDisk = 128 << 20
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

func (c *config) checkDisk() error {
	switch {
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

// disk makes the member that keeps a member's disk mounted, and has that one use it.
func (l *layout) disk(of *backend.Member) backend.Member {
	made := backend.Member{Name: diskOf(of.Name), Component: string(disk), Image: l.config.image(faultInjector),
		Program: string(faultInjector), Args: []string{"--hold"}, Data: of.Data, DataSize: l.config.diskSize,
		Network: backend.NetworkNone}
	of.Data, of.DataFrom = nil, made.Name
	return made
}
