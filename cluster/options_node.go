package cluster

import (
	"errors"
	"fmt"
	"time"
)

// WithNodeResources bounds what each node and its pods use, and has the node declare that as its capacity: cpus is a
// number of CPUs, memory is in bytes, and 0 leaves one of them unbounded. Without it, each node declares all that the
// Docker engine's machine has, and a hollow node 32 CPUs and 128 GiB. Nodes in containers may have no more together
// than that machine, except WithOvercommit; hollow nodes use nothing and may have anything.
func WithNodeResources(cpus int, memory int64) Option {
	return func(c *config) error {
		if cpus < 0 || memory < 0 {
			return fmt.Errorf("node resources: %d CPUs, %d bytes of memory: neither may be negative", cpus, memory)
		}
		c.nodeResources.CPUs, c.nodeResources.MemoryBytes = cpus, memory
		return nil
	}
}

// Runtime is what nodes in containers run their pods on.
type Runtime string

// The engines of nodes.
const (
	Docker Runtime = "docker"
	// CRI is containerd, behind the container runtime interface of Kubernetes, with pod networks by CNI.
	CRI Runtime = "cri"
)

// containerdEndpoint is where a node's containerd listens.
const containerdEndpoint = "unix:///run/containerd/containerd.sock"

// WithRuntime chooses the engine that nodes run their pods on; the default is Docker.
func WithRuntime(runtime Runtime) Option {
	return func(c *config) error {
		if runtime != Docker && runtime != CRI {
			return fmt.Errorf("runtime %q: %s or %s", runtime, Docker, CRI)
		}
		c.runtime = runtime
		return nil
	}
}

// engineArgs have a kubelet use the engine of its node.
func (c *config) engineArgs() []string {
	if c.runtime == CRI {
		return []string{"--container-runtime-endpoint=" + containerdEndpoint}
	}
	return []string{"--runtime=docker"}
}

// WithOvercommit lets the nodes have more together, by WithNodeResources, than the Docker engine's machine.
func WithOvercommit() Option {
	return func(c *config) error { c.overcommit = true; return nil }
}

// shutdownPeriods are fields of nodes' KubeletConfiguration.
type shutdownPeriods struct{ total, critical time.Duration }

// stopMargin is what a node needs to stop beside its pods.
const stopMargin = 20 * time.Second

// stopGrace is how long a node takes to stop; 0 is as long as others.
func (p shutdownPeriods) stopGrace() time.Duration {
	if p.total == 0 {
		return 0
	}
	return p.total + stopMargin
}

// WithGracefulNodeShutdown has nodes end their pods when they are stopped (Member.Stop, `docker stop`): those that are
// not critical first, and critical ones within the last part, critical, of total
// (https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#graceful-node-shutdown).
func WithGracefulNodeShutdown(total, critical time.Duration) Option {
	return func(c *config) error {
		if total < time.Second || critical < 0 || critical > 0 && critical < time.Second || critical > total {
			return fmt.Errorf("graceful node shutdown in %v, with %v for critical pods: "+
				"use at least 1s, and no more for critical pods than in all", total, critical)
		}
		c.shutdown = shutdownPeriods{total: total, critical: critical}
		return nil
	}
}

// checkNodeOptions refuses what was said of nodes that there are not.
func (c *config) checkNodeOptions() error {
	bounded := c.nodeResources.CPUs > 0 || c.nodeResources.MemoryBytes > 0
	switch {
	case c.runtime != "" && !c.hasPodNetwork():
		return fmt.Errorf("runtime %s: the cluster has no node in a container", c.runtime)
	case bounded && !c.runs(Node):
		return fmt.Errorf("node resources: %s", c.whyMissing(Node))
	case c.overcommit && (!bounded && c.nodeDisk == 0 || c.hollow()):
		return errors.New("overcommit: only nodes in containers whose resources are given can have too much")
	case c.shutdown.total > 0 && !c.hasPodNetwork():
		return errors.New("graceful node shutdown: the cluster has no node in a container")
	}
	return nil
}
