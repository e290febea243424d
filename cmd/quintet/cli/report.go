package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/conformance/report"
)

// exitNotComparable is the exit code of `quintet report compare` for reports of different suites or choices of cases.
const exitNotComparable = 2

func (a *app) report() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Work with reports of the conformance suite",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(a.reportCompare())
	return cmd
}

func (a *app) reportCompare() *cobra.Command {
	var output, page string
	cmd := &cobra.Command{
		Use:   "compare BEFORE AFTER",
		Short: "Show what differs between two report.json files",
		Long: `Show what differs between two report.json files: versions, images and machines, results of profiles, outcomes of cases.
The exit code is

  0  if no outcome is worse
  1  if a case that passed does not any more, or another one fails
  2  if the reports are not comparable: of another suite, other profiles or another filter`,
		Example: `  quintet report compare before/report.json after/report.json
  quintet report compare before/report.json after/report.json --html difference.html`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, files []string) error {
			before, err := readReport(files[0])
			if err != nil {
				return err
			}
			after, err := readReport(files[1])
			if err != nil {
				return err
			}
			c := report.Compare(before, after)
			if page != "" {
				if err := report.WriteFile(page, func(w io.Writer) error { return c.WriteHTML(w, before, after) }); err != nil {
					return err
				}
			}
			if err := a.print(output, c, func() error { return c.WriteText(a.out) }); err != nil {
				return err
			}
			switch {
			case c.NotComparable != "":
				return exitError(exitNotComparable)
			case c.Worse():
				return exitError(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&page, "html", "", "file to write a page to")
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
