package cli

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/cluster"
)

// addNodeFlags adds the flags that say what nodes are like.
func (f *upFlags) addNodeFlags(fs *pflag.FlagSet) {
	fs.IntVar(&f.nodeCPUs, "node-cpus", 0, "CPUs of each node; 0 is all of the machine")
	fs.StringVar(&f.nodeMemory, "node-memory", "", "memory of each node, such as 2Gi; by default all of the machine")
	fs.StringVar(&f.nodeDisk, "node-disk", "",
		"size of a disk of its own for each node, such as 4Gi, which pods and quintet fill-disk can fill")
	fs.StringVar(&f.runtime, "runtime", "", "engine of nodes: docker (the default) or cri, which is containerd")
	fs.StringVar(&f.etcdDisk, "etcd-disk", "",
		"size of a disk of its own for each etcd member, such as 256Mi, which quintet fill-disk can fill")
	fs.BoolVar(&f.overcommit, "overcommit", false, "let the nodes have more together than the machine")
	fs.DurationVar(&f.shutdown, "shutdown-grace-period", 0,
		"how long a node that is stopped takes to end its pods gracefully; 0 kills them with it")
	fs.DurationVar(&f.shutdownLast, "shutdown-grace-period-critical-pods", 0,
		"the last part of --shutdown-grace-period, for critical pods")
}

// nodeOptions translates them.
func (f *upFlags) nodeOptions() ([]cluster.Option, error) {
	var opts []cluster.Option
	memory, err := amount("--node-memory", f.nodeMemory)
	if err != nil {
		return nil, err
	}
	disk, err := amount("--etcd-disk", f.etcdDisk)
	if err != nil {
		return nil, err
	}
	if disk != 0 {
		opts = append(opts, cluster.WithDiskSize(disk))
	}
	nodeDisk, err := amount("--node-disk", f.nodeDisk)
	if err != nil {
		return nil, err
	}
	if nodeDisk != 0 {
		opts = append(opts, cluster.WithNodeDisk(nodeDisk))
	}
	if f.nodeCPUs != 0 || memory != 0 {
		opts = append(opts, cluster.WithNodeResources(f.nodeCPUs, memory))
	}
	if f.runtime != "" {
		opts = append(opts, cluster.WithRuntime(cluster.Runtime(f.runtime)))
	}
	if f.overcommit {
		opts = append(opts, cluster.WithOvercommit())
	}
	if f.shutdown != 0 || f.shutdownLast != 0 {
		opts = append(opts, cluster.WithGracefulNodeShutdown(f.shutdown, f.shutdownLast))
	}
	return opts, nil
}

// amount reads a number of bytes that a flag gives; "" is 0.
func amount(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() <= 0 {
		return 0, fmt.Errorf("%s %q: want a number of bytes, e.g. 2Gi", flag, text)
	}
	return quantity.Value(), nil
}
