package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/conformance"
	"quintet.dev/quintet/conformance/matrix"
	"quintet.dev/quintet/conformance/report"
)

// cellFlags are what the clusters of a matrix have in common, and what runs on them.
type cellFlags struct {
	up    upFlags
	suite suiteFlags
	image string // the test image
}

func (f *cellFlags) bind(fs *pflag.FlagSet) {
	f.up.bindCluster(fs)
	fs.BoolVar(&f.up.inProcess, "in-process", false,
		"run each cluster in its cell's process, without Docker, on hollow nodes; swaps are program files then")
	fs.DurationVar(&f.up.timeout, "timeout", 3*time.Minute,
		"how long to wait until a cluster is ready; then the suite runs on what there is of it")
	f.suite.bind(fs)
	fs.IntVar(&f.suite.parallel, "case-parallel", conformance.DefaultParallel, "how many cases of a cell run at once")
	fs.StringVar(&f.image, "test-image", "",
		"the suite's test image as nodes can get it (default "+conformance.DefaultImage+")")
}

// matrixFlags are the flags of `quintet matrix`.
type matrixFlags struct {
	cellFlags
	swaps           []string
	pairs, together bool
	parallel        int
	report          string
	all             bool
}

func (a *app) matrix() *cobra.Command {
	var f matrixFlags
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Run the conformance suite with each component swapped for another one",
		Long: `Run the conformance suite on a cluster of Quintet's components, and on one more for each --swap, with that in the place
of a component: an image that has upstream's program on its path, or a program file for the engine's platform, which
then replaces the program in the component's own image (a node's is the kubelet). One page shows whose component breaks
whose case.

With --in-process no cell needs Docker: its cluster is its process, with hollow nodes, and swaps are program files that
run on this machine with upstream's flags. Their output is in the cell's directory.

Each cell is a process with a cluster of its own, which is removed with it. The base runs first; the others are held
to the profiles that it supports, unless --profile names some. Where a cluster does not become ready, the suite runs on
what there is of it; the cell is inconclusive if no API server answers.

The report directory gets matrix.json, matrix.html, and a directory for each cell with its report and log. The exit
code is

  0  if all cells conform, or passed what --filter chose
  1  if a case failed in a cell, or one that holds in the base does not hold in another cell
  2  if a cell came to no verdict, or a flag is wrong
  3  if the base lacks core features of a profile that --profile names`,
		Example: `  quintet matrix --swap kube-scheduler=mine:dev --report report
  quintet matrix --swap kube-scheduler=bin/my-scheduler --swap node=bin/kubelet --profile scheduler --profile node
  quintet matrix --swap kube-scheduler=a:1 --swap kube-controller-manager=b:1 --all-pairs --parallel 2
  quintet matrix --in-process --swap kube-scheduler=bin/my-scheduler --filter '^scheduling/'
  quintet matrix --swap kube-proxy=mine:dev --nodes 2 --filter '^kube-proxy/'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runMatrix(cmd, f) },
	}
	fs := cmd.Flags()
	f.bind(fs)
	fs.StringArrayVar(&f.swaps, "swap", nil,
		"COMPONENT=IMAGE or COMPONENT=FILE: a cell with that in the place of a component; may be repeated")
	fs.BoolVar(&f.pairs, "all-pairs", false, "also a cell for each two swaps of different components")
	fs.BoolVar(&f.together, "all-together", false, "also a cell with all swaps")
	fs.IntVar(&f.parallel, "parallel", 1, "how many cells run at once, after the base")
	fs.StringVar(&f.report, "report", filepath.Join("_output", "matrix"), "directory to write the reports to")
	fs.BoolVar(&f.all, "show-all", false, "print also the cases that came out the same in every cell")
	cmd.AddCommand(a.matrixCell())
	return cmd
}

// plans checks the flags and lists the cells.
func (f *matrixFlags) plans() ([]matrix.Plan, error) {
	if len(f.swaps) == 0 {
		return nil, errors.New("nothing to swap: use --swap COMPONENT=IMAGE or --swap COMPONENT=FILE")
	}
	if f.parallel < 1 {
		return nil, fmt.Errorf("--parallel %d: at least 1", f.parallel)
	}
	if err := f.suite.check("case-parallel"); err != nil {
		return nil, err
	}
	var swaps []matrix.Swap
	for _, swap := range f.swaps {
		component, with, ok := strings.Cut(swap, "=")
		if !ok || with == "" {
			return nil, fmt.Errorf("--swap %q: want COMPONENT=IMAGE or COMPONENT=FILE, e.g. kube-scheduler=mine:dev", swap)
		}
		if !slices.Contains(cluster.Components(), cluster.Component(component)) {
			return nil, fmt.Errorf("--swap %q: no component %q; there are %v", swap, component, cluster.Components())
		}
		if f.up.inProcess && !isFile(with) {
			return nil, fmt.Errorf("--swap %q: there is no file %s, which a cluster in process would run", swap, with)
		}
		swaps = append(swaps, matrix.Swap{Component: component, With: with})
	}
	return matrix.Plans(swaps, matrix.Extra{Pairs: f.pairs, Together: f.together})
}

func (a *app) runMatrix(cmd *cobra.Command, f matrixFlags) error {
	ctx := cmd.Context()
	if f.up.config != "" {
		file, err := cluster.LoadConfig(f.up.config)
		if err != nil {
			return err
		}
		f.up.inProcess = f.up.inProcess || file.InProcess()
	}
	plans, err := f.plans()
	if err != nil {
		return err
	}
	began := time.Now()
	name := a.name
	if name == "" {
		name = "matrix"
	}
	images := &swapImages{cluster: name}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		if err := images.remove(ctx); err != nil {
			fmt.Fprintln(a.err, "quintet:", err)
		}
	}()
	if !f.up.inProcess {
		if err := images.prepare(ctx, plans); err != nil {
			return err
		}
	}
	r := matrixRun{app: a, name: name, dir: f.report, inProcess: f.up.inProcess, images: images,
		flags: cellArguments(cmd.Flags())}
	made := matrix.New(r.all(ctx, plans, f.parallel, len(f.suite.profiles) > 0))
	made.Started, made.Seconds = began, time.Since(began).Seconds()
	for file, write := range map[string]func(io.Writer) error{
		"matrix.json": made.WriteJSON, "matrix.html": made.WriteHTML,
	} {
		if err := report.WriteFile(filepath.Join(f.report, file), write); err != nil {
			return err
		}
	}
	if err := made.WriteText(a.out, f.all); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "The matrix is %s\n", filepath.Join(f.report, "matrix.html"))
	if code := exitCode(made.Result()); code != 0 {
		return exitError(code)
	}
	return nil
}

// cellArguments are the flags of `quintet matrix` that its cells have, too.
func cellArguments(given *pflag.FlagSet) []string {
	of := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(cellFlags).bind(of)
	var args []string
	given.Visit(func(flag *pflag.Flag) {
		if of.Lookup(flag.Name) == nil {
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			args = append(args, "--"+flag.Name+"="+value)
		}
	})
	return args
}

// isFile tells whether a swap names a program file; else it is an image.
func isFile(with string) bool {
	info, err := os.Stat(with)
	return err == nil && info.Mode().IsRegular()
}
