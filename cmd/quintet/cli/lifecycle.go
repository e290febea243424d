package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/cluster"
)

// verb is what can be done to members.
type verb struct {
	name, short, done string
	do                func(ctx context.Context, m *cluster.Member) error
}

func lifecycle() []verb {
	return []verb{
		{"pause", "Freeze members: their connections stay open, and nothing answers", "is paused",
			func(ctx context.Context, m *cluster.Member) error { return m.Pause(ctx) }},
		{"resume", "End pause", "goes on",
			func(ctx context.Context, m *cluster.Member) error { return m.Unpause(ctx) }},
		{"stop", "Stop members gracefully", "is stopped",
			func(ctx context.Context, m *cluster.Member) error { return m.Stop(ctx) }},
		{"start", "Run stopped or killed members again, with their addresses and data", "is started",
			func(ctx context.Context, m *cluster.Member) error { return m.Start(ctx) }},
		{"kill", "End members without a warning, like a crash", "is killed",
			func(ctx context.Context, m *cluster.Member) error { return m.Kill(ctx) }},
		{"restart", "Stop and start members", "is restarted",
			func(ctx context.Context, m *cluster.Member) error { return m.Restart(ctx) }},
	}
}

func (a *app) verbs() []*cobra.Command {
	var commands []*cobra.Command
	for _, v := range lifecycle() {
		commands = append(commands, &cobra.Command{
			Use:   v.name + " MEMBER|COMPONENT...",
			Short: v.short,
			Example: fmt.Sprintf("  quintet %s kube-scheduler        # all schedulers\n  quintet %s node-1 etcd-0",
				v.name, v.name),
			Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				c, err := a.open(cmd)
				if err != nil {
					return err
				}
				defer c.Close()
				return a.carryOut(cmd.Context(), c, v, args)
			},
		})
	}
	return commands
}

// carryOut does a verb to all members that are meant, and tells all errors. Names are looked at first.
func (a *app) carryOut(ctx context.Context, c *cluster.Cluster, v verb, names []string) error {
	members, err := meant(c, names)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range members {
		if err := v.do(ctx, m); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(a.err, "%s %s.\n", m.Name(), v.done)
	}
	return errors.Join(errs...)
}

// meant are the members of components, and those that are named.
func meant(c *cluster.Cluster, names []string) ([]*cluster.Member, error) {
	var members []*cluster.Member
	seen := map[*cluster.Member]bool{}
	for _, name := range names {
		found := c.Component(cluster.Component(name)).Members
		for _, m := range c.Members() {
			if m.Name() == name {
				found = append(found, m)
			}
		}
		if len(found) == 0 {
			return nil, absentMember(c, name)
		}
		for _, m := range found {
			if !seen[m] {
				members, seen[m] = append(members, m), true
			}
		}
	}
	return members, nil
}

func absentMember(c *cluster.Cluster, name string) error {
	var names []string
	for _, m := range c.Members() {
		names = append(names, m.Name())
	}
	return fmt.Errorf("cluster %s has neither a member nor a component %q; its members are %v", c.Name(), name, names)
}

func (a *app) load() *cobra.Command {
	var archives []string
	cmd := &cobra.Command{
		Use:   "load [IMAGE...]",
		Short: "Copy images of the local Docker engine, or of archives, to every node",
		Example: `  docker build --tag mine:dev . && quintet load mine:dev
  quintet load --archive images.tar     # of docker save`,
		RunE: func(cmd *cobra.Command, images []string) error {
			if len(images)+len(archives) == 0 {
				return errors.New("nothing to load; give an image, or --archive FILE")
			}
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, image := range images {
				if err := c.LoadImage(cmd.Context(), image); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "%s is on every node of %s.\n", image, c.Name())
			}
			for _, archive := range archives {
				if err := c.LoadArchive(cmd.Context(), archive); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "The images of %s are on every node of %s.\n", archive, c.Name())
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&archives, "archive", nil, "FILE with images, of docker save; may be repeated")
	return cmd
}

func (a *app) export() *cobra.Command {
	parent := &cobra.Command{Use: "export", Short: "Write what a cluster is and says into files"}
	parent.AddCommand(&cobra.Command{
		Use:   "logs DIR",
		Short: "Write the logs of all members, and all objects but Secrets as YAML",
		Example: `  quintet export logs out
  # out/logs/MEMBER.log, out/objects/NAMESPACE/RESOURCE.yaml; _cluster has those without a namespace`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Export(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "Logs and objects of %s are in %s.\n", c.Name(), args[0])
			return nil
		},
	})
	return parent
}
