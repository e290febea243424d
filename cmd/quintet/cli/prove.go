package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/conformance"
	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/internal/kubeconfig"
)

// conformanceFlags are the flags of `quintet conformance`.
type conformanceFlags struct {
	kubeconfig, report, image, filter string
}

func (a *app) conformance() *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Run the conformance suite on a cluster, of Quintet or any other",
		Long: `Run the conformance suite on a cluster. It needs the rights of an administrator, and works in namespaces of its own.
The exit code is 1 when a case failed. With --report it writes report.json, junit.xml, report.md and report.html.`,
		Example: `  quintet conformance --report report
  quintet conformance --kubeconfig ~/.kube/config --image registry.example/testimage:1
  quintet conformance --filter scheduling`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runConformance(cmd.Context(), f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "cluster to check; the default is the chosen cluster of Quintet")
	fs.StringVar(&f.report, "report", "", "directory to write the report to")
	fs.StringVar(&f.image, "image", "", "the suite's test image as nodes can get it (default "+conformance.DefaultImage+")")
	fs.StringVar(&f.filter, "filter", "", "regular expression over the identifiers of cases to run")
	return cmd
}

func (a *app) runConformance(ctx context.Context, f conformanceFlags) error {
	name, config, err := a.target(ctx, f.kubeconfig)
	if err != nil {
		return err
	}
	made, err := conformance.Run(ctx, conformance.Options{
		Config: config, Name: name, Image: f.image, Filter: f.filter, Progress: a.err,
	})
	if err != nil {
		return err
	}
	if f.report != "" {
		if err := writeReport(f.report, made); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "The report is %s\n", filepath.Join(f.report, "report.html"))
	}
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

// writeReport writes the report in every form.
func writeReport(dir string, r *report.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var errs []error
	for name, write := range map[string]func(io.Writer) error{
		"report.json": r.WriteJSON, "junit.xml": r.WriteJUnit, "report.md": r.WriteMarkdown, "report.html": r.WriteHTML,
	} {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		errs = append(errs, write(file), file.Close())
	}
	return errors.Join(errs...)
}
