package cli

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/images"
)

func (a *app) images() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List Quintet's images, or build them",
		Long: `List Quintet's images in the Docker engine.

Clusters of containers run from images that are built out of the source of this program: its release, by Go's module
cache or proxy, or the checkout that it was built in. 'quintet up' builds what is missing. The tag of an image is a hash
of its content, so that no old one is taken; 'dev' is what was built last.

  QUINTET_SOURCE         a checkout to build from instead
  QUINTET_IMAGE_PREFIX   what names begin with instead of quintet`,
		Example: `  quintet images
  quintet images -o json
  quintet images build                # all of them, before they are needed
  quintet images build node testimage`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := cluster.Images(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(output, found, func() error { return a.printImages(found) })
		},
	}
	outputFlag(cmd, &output)
	cmd.AddCommand(a.buildImages())
	return cmd
}

func (a *app) printImages(found []images.Image) error {
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tIMAGE\tSIZE\tCREATED")
	for _, i := range found {
		fmt.Fprintf(table, "%s\t%s\t%.1f MB\t%s\n", i.Name, i.Ref, float64(i.Size)/1e6, i.Created.Format(time.RFC3339))
	}
	return table.Flush()
}

func (a *app) buildImages() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "build [NAME...]",
		Short: "Build images that are missing, all or those that are named",
		Example: `  quintet images build
  quintet images build kube-scheduler
  QUINTET_SOURCE=~/src/quintet quintet images build`,
		RunE: func(cmd *cobra.Command, names []string) error {
			refs, err := cluster.BuildImages(cmd.Context(), func(text string) { fmt.Fprintln(a.err, "  -", text) }, names...)
			if err != nil {
				return err
			}
			return a.print(output, refs, func() error {
				for _, name := range slices.Sorted(maps.Keys(refs)) {
					fmt.Fprintln(a.out, refs[name])
				}
				return nil
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
