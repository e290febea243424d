package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/cluster"
)

// clusterStatus is the output of `quintet status` for one cluster, as JSON and YAML.
type clusterStatus struct {
	Name      string         `json:"name"`
	InProcess bool           `json:"inProcess"`
	Members   []cluster.Info `json:"members,omitempty"`
}

func (a *app) status() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List clusters and their members",
		Example: `  quintet status
  quintet status --name b --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			statuses, err := a.statuses(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(output, statuses, func() error { return a.statusTable(statuses) })
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (a *app) statuses(ctx context.Context) ([]clusterStatus, error) {
	all, err := a.clusters(ctx)
	if err != nil {
		return nil, err
	}
	statuses := []clusterStatus{}
	for _, c := range all {
		if a.name != "" && c.name != a.name {
			continue
		}
		status := clusterStatus{Name: c.name, InProcess: c.inProcess != nil}
		if !status.InProcess {
			if status.Members, err = cluster.List(ctx, c.name); err != nil {
				return nil, err
			}
		}
		statuses = append(statuses, status)
	}
	if a.name != "" && len(statuses) == 0 {
		return nil, a.absent(all)
	}
	return statuses, nil
}

func (a *app) statusTable(statuses []clusterStatus) error {
	if len(statuses) == 0 {
		fmt.Fprintln(a.err, "No cluster runs. Start one: quintet up")
		return nil
	}
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tMEMBER\tCOMPONENT\tSTATE\tIMAGE")
	for _, status := range statuses {
		if status.InProcess {
			fmt.Fprintf(table, "%s\t-\tall\tin a process\t-\n", status.Name)
		}
		if !status.InProcess && len(status.Members) == 0 {
			fmt.Fprintf(table, "%s\t-\t-\tis being started or removed\t-\n", status.Name)
		}
		for _, m := range status.Members {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", m.Cluster, m.Member, m.Component, m.Status, m.Image)
		}
	}
	return table.Flush()
}

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "", "json or yaml instead of text")
}

// print writes value in the chosen format, or calls text.
func (a *app) print(output string, value any, text func() error) error {
	switch output {
	case "":
		return text()
	case "json":
		encoder := json.NewEncoder(a.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case "yaml":
		content, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = a.out.Write(content)
		return err
	default:
		return fmt.Errorf("--output %q: json or yaml", output)
	}
}
