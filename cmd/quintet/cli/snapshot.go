package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/cluster"
)

func (a *app) snapshot() *cobra.Command {
	return &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Save a cluster's objects and identities to a file",
		Long: `Save a cluster's objects and identities to a file, which clusters can be started from (up --from) and the
cluster be put back to (restore). The file has the cluster's keys and secrets.`,
		Example: `  quintet snapshot prepared.tar
  quintet up --name second --from prepared.tar
  quintet restore prepared.tar`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			s, err := c.Snapshot(cmd.Context())
			if err != nil {
				return err
			}
			if err := s.Save(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Cluster %s is saved in %s.\n", c.Name(), args[0])
			return nil
		},
	}
}

func (a *app) restore() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a cluster back to what it was at a snapshot",
		Long: `Put a cluster back to what it was at a snapshot, of itself or of the cluster that it was started from: all
members stop, and start again with the objects of then.`,
		Example: "  quintet snapshot before.tar && make test; quintet restore before.tar",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := cluster.LoadSnapshot(args[0])
			if err != nil {
				return err
			}
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Restore(cmd.Context(), s); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Cluster %s is what it was.\n", c.Name())
			return nil
		},
	}
}
