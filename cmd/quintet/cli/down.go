package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/cluster/owner"
)

// endTimeout is what an in-process cluster gets to end after it was asked to.
const endTimeout = 20 * time.Second

func (a *app) down() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove a cluster and all that belongs to it",
		Example: `  quintet down
  quintet down --name b
  quintet down --all      # every cluster, also what crashed tests left behind`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				return a.downAll(cmd.Context())
			}
			return a.downOne(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove every cluster of this machine")
	return cmd
}

func (a *app) downOne(ctx context.Context) error {
	c, err := a.choose(ctx)
	if err != nil {
		return err
	}
	if c.inProcess != nil {
		err = a.endProcess(ctx, *c.inProcess)
	} else {
		err = errors.Join(a.warnNetworkKept(cluster.Remove(ctx, c.name)), a.state.remove(c.name))
	}
	if err == nil {
		fmt.Fprintf(a.err, "Cluster %s is gone.\n", c.name)
	}
	return err
}

func (a *app) downAll(ctx context.Context) error {
	entries, err := a.state.inProcess()
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, a.endProcess(ctx, e))
		fmt.Fprintf(a.err, "Cluster %s is gone.\n", e.Name)
	}
	names, err := cluster.RemoveAll(ctx)
	for _, name := range names {
		fmt.Fprintf(a.err, "Cluster %s is gone.\n", name)
	}
	if err = a.warnNetworkKept(err); err == nil {
		err = a.state.removeContainers()
	}
	return errors.Join(append(errs, err)...)
}

// warnNetworkKept tells of a network that only a restart of the engine removes. It is no error: the fault is the
// engine's, and no cluster is kept from anything by it.
func (a *app) warnNetworkKept(err error) error {
	if errors.Is(err, cluster.ErrNetworkKept) {
		fmt.Fprintf(a.err, "Note: %v\n", err)
		return nil
	}
	return err
}

// endProcess stops the process of an in-process cluster gracefully, and waits for it.
func (a *app) endProcess(ctx context.Context, e entry) error {
	pid, alive := owner.Process(e.Owner)
	if alive {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return fmt.Errorf("end process %d of cluster %s: %w", pid, e.Name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	for alive {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d of cluster %s does not end; look at what it waits for, or kill it",
				pid, e.Name)
		case <-time.After(20 * time.Millisecond):
		}
		_, alive = owner.Process(e.Owner)
	}
	return a.state.remove(e.Name)
}
