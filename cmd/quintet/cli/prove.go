package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/conformance"
	"quintet.dev/quintet/conformance/cases"
	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/suite"
	"quintet.dev/quintet/internal/kubeconfig"
)

// conformanceFlags are the flags of `quintet conformance`.
type conformanceFlags struct {
	kubeconfig, report, image, filter string
	features                          []string
	parallel                          int
}

func (a *app) conformance() *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Run the conformance suite on a cluster, of Quintet or any other",
		Long: `Run the conformance suite on a cluster. It needs the rights of an administrator, and works in namespaces of its own.
It writes report.json, junit.xml, report.md and report.html. The exit code is 1 when a case failed.`,
		Example: `  quintet conformance --report report
  quintet conformance --kubeconfig ~/.kube/config --image registry.example/testimage:1
  quintet conformance --filter '^scheduling/'
  quintet conformance list
  quintet conformance compare before/report.json after/report.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runConformance(cmd.Context(), f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "cluster to check; the default is the chosen cluster of Quintet")
	fs.StringVar(&f.report, "report", filepath.Join("_output", "report"), "directory to write the report to")
	fs.StringVar(&f.image, "image", "",
		"the suite's test image as nodes can get it (default "+conformance.DefaultImage+")")
	fs.StringVar(&f.filter, "filter", "", "regular expression over the identifiers of cases to run")
	fs.StringSliceVar(&f.features, "features", nil, fmt.Sprintf("what the cluster has, instead of finding out; of %v",
		suite.Features()))
	fs.IntVar(&f.parallel, "parallel", conformance.DefaultParallel, "how many cases run at once")
	cmd.AddCommand(a.conformanceList(), a.conformanceCompare())
	return cmd
}

func (a *app) conformanceList() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the cases and what each requires",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			type listed struct {
				ID          string          `json:"id"`
				Component   suite.Component `json:"component"`
				Requirement string          `json:"requirement"`
				Reference   string          `json:"reference"`
				Needs       []suite.Feature `json:"needs,omitempty"`
				Since       string          `json:"since"`
			}
			var all []listed
			for _, c := range cases.List() {
				all = append(all, listed{c.ID, c.Component, c.Requirement, c.Reference, c.Needs, c.Since})
			}
			return a.print(output, all, func() error {
				for _, c := range all {
					if _, err := fmt.Fprintf(a.out, "%-32s %s\n", c.ID, c.Requirement); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (a *app) conformanceCompare() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "compare BEFORE AFTER",
		Short: "List the cases whose outcome differs between two report.json files",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, files []string) error {
			var reports []*report.Report
			for _, name := range files {
				r, err := readReport(name)
				if err != nil {
					return err
				}
				reports = append(reports, r)
			}
			changes := report.Compare(reports[0], reports[1])
			return a.print(output, changes, func() error {
				for _, c := range changes {
					if _, err := fmt.Fprintf(a.out, "%-32s %s -> %s\n", c.ID, c.Before, c.After); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func readReport(name string) (*report.Report, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := report.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func (a *app) runConformance(ctx context.Context, f conformanceFlags) error {
	name, config, err := a.target(ctx, f.kubeconfig)
	if err != nil {
		return err
	}
	var features []suite.Feature // nil finds them out
	for _, feature := range f.features {
		features = append(features, suite.Feature(feature))
	}
	made, err := conformance.Run(ctx, conformance.Options{
		Config: config, Name: name, Image: f.image, Features: features, Filter: f.filter, Parallel: f.parallel,
		Progress: a.err,
	})
	if err != nil {
		return err
	}
	if err := made.WriteAll(f.report); err != nil {
		return err
	}
	fmt.Fprintln(a.err)
	for _, outcome := range report.Outcomes() {
		fmt.Fprintf(a.err, "%4d %s\n", made.Totals()[outcome], outcome)
	}
	fmt.Fprintf(a.err, "The report is %s\n", filepath.Join(f.report, "report.html"))
	if !made.Conformant() {
		return exitError(1)
	}
	return nil
}

// target is the cluster to check: that of a kubeconfig file, or the chosen one.
func (a *app) target(ctx context.Context, file string) (string, *rest.Config, error) {
	name := ""
	if file == "" {
		c, err := a.choose(ctx)
		if err != nil {
			return "", nil, err
		}
		name = c.name
		if file, err = a.kubeconfigOf(ctx, c); err != nil {
			return "", nil, err
		}
	}
	config, err := kubeconfig.Load(file, -1)
	return name, config, err
}
