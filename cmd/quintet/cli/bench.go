package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/bench"
)

// benchFlags are the flags of `quintet bench`.
type benchFlags struct {
	bin, only, output  string
	compareWith        map[string]string
	from, until        string
	profiles           string
	clients, pods      int
	nodes, podsPerNode int
	duration           time.Duration
}

func (a *app) bench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast the components are, each against a limit taken in the same run",
		Example: `  quintet bench
  quintet bench --only '^api$' --output json
  quintet bench --only '^scale$'                          # how costs grow up to 5,000 hollow nodes
  quintet bench --only '^scale' --nodes 800 --pods-per-node 10   # smaller, in memory and on etcd
  quintet bench --only '^scale$' --until 1/8 --profiles /tmp/p   # where the time goes in the smallest
  quintet bench --only '^api$' --compare-with kube-apiserver=upstream/kube-apiserver
  quintet bench --only '^scheduler' --nodes 5000 --compare-with kube-scheduler=upstream/kube-scheduler
  quintet bench --only '^controllers$' --compare-with kube-controller-manager=upstream/kube-controller-manager`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runBench(cmd.Context(), f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.bin, "bin", "", "folder with the programs; the default is that of this one")
	fs.StringToStringVar(&f.compareWith, "compare-with", nil, "another program of a component, such as upstream's, that is "+
		"measured in the same run and the same way: COMPONENT=FILE, of "+strings.Join(bench.Comparable(), " or "))
	fs.StringVar(&f.only, "only", "", "regular expression over the names of sections")
	fs.IntVar(&f.clients, "clients", 32, "clients that work at once")
	fs.IntVar(&f.pods, "pods", 10000, "pods that lists return, and of the deployment of controllers")
	fs.IntVar(&f.nodes, "nodes", 0, "nodes of scheduler, and hollow nodes of the largest cluster of scale and scale-etcd; "+
		"by default as many as half of the machine's memory is enough for, at most 5000; those of volumes and claims have "+
		"no more, and at most 500")
	fs.IntVar(&f.podsPerNode, "pods-per-node", 30, "pods on each of these nodes, and of those of controllers")
	fs.StringVar(&f.from, "from", "", "first fraction of these nodes that is measured, as --until")
	fs.StringVar(&f.until, "until", "", "last fraction of these nodes that is measured: "+
		strings.Join(bench.Fractions(), ", "))
	fs.StringVar(&f.profiles, "profiles", "", "folder for profiles: of the clusters of scale, scale-etcd and "+
		"controllers, whose samples are labelled with the component, and of the scheduler")
	fs.DurationVar(&f.duration, "duration", 5*time.Second, "how long each load is kept up")
	outputFlag(cmd, &f.output)
	return cmd
}

func (a *app) runBench(ctx context.Context, f benchFlags) error {
	redirectLogs(io.Discard) // of clusters in this process
	o := bench.Options{Bin: f.bin, CompareWith: f.compareWith, Clients: f.clients, Duration: f.duration, Pods: f.pods,
		Nodes: f.nodes, PodsPerNode: f.podsPerNode, From: f.from, Until: f.until, Profiles: f.profiles, Progress: a.err}
	if f.only != "" {
		var err error
		if o.Only, err = regexp.Compile(f.only); err != nil {
			return fmt.Errorf("--only: %w", err)
		}
	}
	for component, file := range o.CompareWith {
		if !slices.Contains(bench.Comparable(), component) {
			return fmt.Errorf("--compare-with %s=%s: use one of %s", component, file, strings.Join(bench.Comparable(), ", "))
		}
		found, err := exec.LookPath(file)
		if err != nil {
			return fmt.Errorf("--compare-with: %w", err)
		}
		o.CompareWith[component] = found
	}
	if o.Pods < o.Clients {
		return fmt.Errorf("--pods must be at least --clients: %d is less than %d", o.Pods, o.Clients)
	}
	if o.Nodes != 0 && o.Nodes < 8 {
		return fmt.Errorf("--nodes %d: an eighth of it is measured, too; use 8 or more", o.Nodes)
	}
	if err := checkFractions(o.From, o.Until); err != nil {
		return err
	}
	if o.PodsPerNode < 1 || o.PodsPerNode > 110 {
		return fmt.Errorf("--pods-per-node %d: a node takes between 1 and 110", o.PodsPerNode)
	}
	if o.Bin == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Bin = filepath.Dir(self)
	}
	measures, err := bench.Run(ctx, o)
	if len(measures) == 0 && err != nil {
		return err
	}
	return errors.Join(err, a.print(f.output, measures, func() error { return bench.Write(a.out, measures) }))
}

// checkFractions refuses what is no fraction, and an end before the beginning.
func checkFractions(from, until string) error {
	known := bench.Fractions()
	for flag, value := range map[string]string{"from": from, "until": until} {
		if value != "" && !slices.Contains(known, value) {
			return fmt.Errorf("--%s %q: use one of %s", flag, value, strings.Join(known, ", "))
		}
	}
	if until != "" && slices.Index(known, until) < slices.Index(known, from) {
		return fmt.Errorf("--until %s comes before --from %s", until, from)
	}
	return nil
}
