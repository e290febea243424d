package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/conformance"
	"quintet.dev/quintet/conformance/cases"
	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/suite"
	"quintet.dev/quintet/internal/kubeconfig"
)

// Exit codes of `quintet conformance`, besides 0.
const (
	exitFailed      = 1 // a case failed
	exitNoVerdict   = 2 // cases were inconclusive, or there is no report, as by a wrong flag
	exitUnsupported = 3 // the cluster lacks core features of a profile that it claims, or of all
)

// suiteFlags are the flags of every command that runs the suite.
type suiteFlags struct {
	filter      string
	profiles    []string
	parallel    int
	caseTimeout time.Duration
}

func (f *suiteFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.filter, "filter", "", "regular expression over the identifiers of cases to run")
	fs.StringSliceVar(&f.profiles, "profile", nil, fmt.Sprintf("profile that the cluster claims, of %v; may be repeated",
		suite.Profiles()))
	fs.DurationVar(&f.caseTimeout, "case-timeout", 0,
		"the longest that a case may take, if that is less than its own timeout")
}

// check refuses what can't be meant; parallel is the flag of f.parallel.
func (f *suiteFlags) check(parallel string) error {
	if f.parallel < 1 {
		return fmt.Errorf("--%s %d: at least 1", parallel, f.parallel)
	}
	if f.caseTimeout < 0 {
		return fmt.Errorf("--case-timeout %v: it may not be negative", f.caseTimeout)
	}
	_, err := conformance.Choose(f.options(), cases.List())
	return err
}

// options are those of a run of the suite.
func (f *suiteFlags) options() conformance.Options {
	o := conformance.Options{Filter: f.filter, Parallel: f.parallel, Timeout: f.caseTimeout}
	for _, profile := range f.profiles {
		o.Profiles = append(o.Profiles, suite.Profile(profile))
	}
	return o
}

// conformanceFlags are the flags of `quintet conformance`.
type conformanceFlags struct {
	suiteFlags
	kubeconfig, report, image, rerun string
	features                         []string
	list                             bool
	output                           string
}

func (f *conformanceFlags) check() error {
	if err := conformance.CheckFeatures(f.declared()); err != nil {
		return fmt.Errorf("--features: %w", err)
	}
	return f.suiteFlags.check("parallel")
}

// declared are the features that the cluster has; nil has the suite find them out.
func (f *conformanceFlags) declared() (declared []suite.Feature) {
	for _, feature := range f.features {
		declared = append(declared, suite.Feature(feature))
	}
	return declared
}

func (a *app) conformance() *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Run the conformance suite on a cluster, of Quintet or any other",
		Long: `Run the conformance suite on a cluster. It needs the rights of an administrator, and works in namespaces of its own.
It writes report.json, junit.xml, report.md and report.html.

A cluster claims profiles with --profile: then their core features must be there. Without, all cases run whose features
are found. The exit code is

  0  if it conforms, or if all cases that --filter chose passed, which says nothing of the others
  1  if a case failed
  2  if cases came to no verdict: the test image can't be pulled, the cluster was lost, the run was interrupted; or if
     there is no report, as the cluster does not answer, or a flag is wrong
  3  if it lacks a core feature of a profile that it claims, or of every profile`,
		Example: `  quintet conformance --profile full --report report
  quintet conformance --kubeconfig ~/.kube/config --image registry.example/testimage:1
  quintet conformance --profile scheduler
  quintet conformance --filter '^scheduling/'
  quintet conformance --rerun report/report.json         # what failed, or came to no verdict, once more
  quintet conformance --list --output json               # cases with their profiles and features
  quintet report compare before/report.json after/report.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if f.list {
				return a.listCases(f)
			}
			return a.runConformance(cmd.Context(), f)
		},
	}
	fs := cmd.Flags()
	f.bind(fs)
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "cluster to check; the default is the chosen cluster of Quintet")
	fs.StringVar(&f.report, "report", filepath.Join("_output", "report"), "directory to write the report to")
	fs.StringVar(&f.image, "image", "",
		"the suite's test image as nodes can get it (default "+conformance.DefaultImage+")")
	fs.StringSliceVar(&f.features, "features", nil, fmt.Sprintf("what the cluster has, instead of finding out; of %v",
		suite.Features()))
	fs.IntVar(&f.parallel, "parallel", conformance.DefaultParallel, "how many cases run at once")
	fs.StringVar(&f.rerun, "rerun", "",
		"report.json of which to run again what failed or was inconclusive; all attempts are kept")
	fs.BoolVar(&f.list, "list", false, "list the cases that --profile and --filter choose, and run none")
	outputFlag(cmd, &f.output)
	return cmd
}

// noVerdict has a command that runs the suite end with exitNoVerdict where there is no report, also where its flags or
// arguments are wrong: exitFailed tells of a cluster.
func (a *app) noVerdict(cmd *cobra.Command) {
	run, check := cmd.RunE, cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error { return a.orNoVerdict(check(cmd, args)) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.orNoVerdict(run(cmd, args)) }
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return a.orNoVerdict(flagError(cmd, err)) })
}

// orNoVerdict reports an error that left no report.
func (a *app) orNoVerdict(err error) error {
	var ended exitError
	if err == nil || errors.As(err, &ended) || errors.Is(err, pflag.ErrHelp) {
		return err
	}
	fmt.Fprintln(a.err, "quintet:", err)
	return exitError(exitNoVerdict)
}

// listed is a case as `quintet conformance --list` shows it.
type listed struct {
	ID          string                   `json:"id"`
	Component   suite.Component          `json:"component"`
	Profiles    []suite.Profile          `json:"profiles"`
	Levels      map[suite.Profile]string `json:"levels"` // core or extended
	Needs       []suite.Feature          `json:"needs,omitempty"`
	Serial      bool                     `json:"serial,omitempty"`
	Requirement string                   `json:"requirement"`
	Reference   string                   `json:"reference"`
	Since       string                   `json:"since"`
}

func (a *app) listCases(f conformanceFlags) error {
	chosen, err := conformance.Choose(f.options(), cases.List())
	if err != nil {
		return err
	}
	var all []listed
	for _, c := range chosen {
		levels := map[suite.Profile]string{}
		for _, p := range c.In() {
			levels[p] = "extended"
			if c.CoreIn(p) {
				levels[p] = "core"
			}
		}
		all = append(all, listed{c.ID, c.Component, c.In(), levels, c.Needs, c.Serial, c.Requirement, c.Reference, c.Since})
	}
	return a.print(f.output, all, func() error {
		for _, c := range all {
			if _, err := fmt.Fprintf(a.out, "%-34s %-11s %-8s %s\n", c.ID, c.Profiles[0], c.Levels[c.Profiles[0]],
				c.Requirement); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) runConformance(ctx context.Context, f conformanceFlags) error {
	o := f.options()
	if f.rerun != "" {
		var err error
		if o.Rerun, err = readReport(f.rerun); err != nil {
			return err
		}
	}
	name, config, err := a.target(ctx, f.kubeconfig)
	if err != nil {
		return err
	}
	o.Features = f.declared()
	o.Config, o.Name, o.Image, o.Progress = config, name, f.image, a.err
	redirectLogs(io.Discard) // client-go logs what cases provoke, such as a forwarded port that nothing listens on
	made, err := conformance.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := made.WriteAll(f.report); err != nil {
		return err
	}
	a.summarize(made)
	fmt.Fprintf(a.err, "The report is %s\n", filepath.Join(f.report, "report.html"))
	if code := exitCode(made.Result()); code != 0 {
		return exitError(code)
	}
	return nil
}

// summarize prints what a report concludes.
func (a *app) summarize(r *report.Report) {
	fmt.Fprintln(a.err)
	for _, outcome := range report.Outcomes() {
		fmt.Fprintf(a.err, "%4d %s\n", r.Totals()[outcome], outcome)
	}
	for _, c := range r.Cases {
		if len(c.Attempts) > 0 && (c.Outcome == report.Passed || c.Outcome == report.Flaky) {
			first, _, _ := strings.Cut(c.Reason, "\n")
			fmt.Fprintf(a.err, "     %s %s: %s\n", c.Outcome, c.ID, first)
		}
	}
	fmt.Fprintln(a.err)
	for _, p := range r.Profiles {
		fmt.Fprintf(a.err, "%-12s %-13s %s\n", p.Name, p.Result, p.Reason)
	}
}

func exitCode(result report.Result) int {
	switch result {
	case report.ResultFailed:
		return exitFailed
	case report.ResultInconclusive:
		return exitNoVerdict
	case report.ResultUnsupported:
		return exitUnsupported
	}
	return 0
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
