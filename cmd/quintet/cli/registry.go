package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) registry() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Push images to the cluster's registry, and list them",
		Long: `Push images to the registry of a cluster that was started with one, and list them. Nodes pull them by the
names that are printed.`,
		Example: `  quintet up --with registry
  docker build --tag mine:dev . && quintet registry push mine:dev
  quintet registry list`,
	}
	cmd.AddCommand(a.registryPush(), a.registryList())
	return cmd
}

func (a *app) registryPush() *cobra.Command {
	return &cobra.Command{
		Use:     "push IMAGE...",
		Short:   "Push images of the local Docker engine, and print what pods call them",
		Example: `  quintet registry push mine:dev`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, images []string) error {
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, image := range images {
				pushed, err := c.PushImage(cmd.Context(), image)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, pushed.Reference)
				fmt.Fprintf(a.err, "%s is in the registry of %s: %s\n", image, c.Name(), pushed.ByDigest())
			}
			return nil
		},
	}
}

func (a *app) registryList() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the images of the registry, as pods call them",
		Example: `  quintet registry list --output json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			images, err := c.RegistryImages(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(output, images, func() error {
				for _, image := range images {
					fmt.Fprintln(a.out, image)
				}
				return nil
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
