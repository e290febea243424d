package cluster

import (
	"context"
	"fmt"

	"quintet.dev/quintet/internal/kubeconfig"
)

// WithKubeconfigMerged adds the context quintet-NAME, with a cluster and a user of that name, to a kubeconfig file and
// makes it the current one; Stop takes them out. "" is the file that kubectl changes: of $KUBECONFIG, or
// ~/.kube/config. It is off by default: clusters of tests run side by side, and none of them is to change what a
// person's kubectl is about.
func WithKubeconfigMerged(file string) Option {
	return func(c *config) error {
		if file == "" {
			file = kubeconfig.DefaultFile()
		}
		c.mergeInto = file
		return nil
	}
}

// ContextName is the name of a cluster's entries in a kubeconfig file that it is merged into.
func ContextName(cluster string) string { return "quintet-" + cluster }

// MergeKubeconfig does what WithKubeconfigMerged does, for a cluster that runs, and returns the name of the file. It
// waits for the lock of the file until ctx ends.
func (c *Cluster) MergeKubeconfig(ctx context.Context, file string) (string, error) {
	if file == "" {
		file = kubeconfig.DefaultFile()
	}
	return file, kubeconfig.Merge(ctx, file, ContextName(c.Name()), c.kubeconfig)
}

// UnmergeKubeconfig takes a cluster's entries out of a kubeconfig file; those that are not there are no error. A file
// that was made for them, and in which nothing else is, is removed.
func UnmergeKubeconfig(ctx context.Context, file, cluster string) error {
	return kubeconfig.Remove(ctx, file, ContextName(cluster))
}

// mergeKubeconfig is the last of a start: a context of a cluster that did not come up is of no use.
func (s *start) mergeKubeconfig(ctx context.Context) error {
	c := s.cluster
	if _, err := c.MergeKubeconfig(ctx, c.config.mergeInto); err != nil {
		return err
	}
	c.merged = true
	return nil
}

// MergedInto is the kubeconfig file that the start merged a context of the cluster into; empty for none.
func (c *Cluster) MergedInto() string {
	if !c.merged {
		return ""
	}
	return c.config.mergeInto
}

// unmerge undoes mergeKubeconfig.
func (c *Cluster) unmerge(ctx context.Context) error {
	if !c.merged {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	if err := UnmergeKubeconfig(ctx, c.config.mergeInto, c.Name()); err != nil {
		return fmt.Errorf("take the context %s out: %w", ContextName(c.Name()), err)
	}
	return nil
}
