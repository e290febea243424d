// Package conformance checks the create, schedule and run flow of a Kubernetes cluster, of any make, through its API.
// It knows nothing of the cluster but a kubeconfig. It never certifies: it says what it tried and what it saw.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"quintet.dev/quintet/conformance/cases"
	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/suite"
)

// Version of the suite; cases say since which version they are in it.
const Version = "0.3"

// DefaultImage is the suite's test image under the name that Quintet's nodes have it by.
const DefaultImage = "quintet/testimage:dev"

// DefaultParallel is how many cases run at once. They wait more than they work.
const DefaultParallel = 6

// Options of a run.
type Options struct {
	// Config reaches the cluster with the rights of a cluster administrator.
	Config *rest.Config
	// Name of the cluster in the report.
	Name string
	// Image is the suite's test image as the nodes can pull or already have it; "" means DefaultImage.
	Image string
	// Profiles that the cluster claims: only their cases run, and those that need their core features do so whether these
	// were found or not. None runs all cases that the cluster has the features for.
	Profiles []suite.Profile
	// Features that the cluster has; nil means that they are found by looking at it.
	Features []suite.Feature
	// Absent are features that the cluster is known to lack: no time is spent on looking for them.
	Absent []suite.Feature
	// Lifetimes of the cluster's components, as far as the caller knows them: a context that ends, with the reason as its
	// cause, when the component has ended for good. Its cases then fail at once, with that reason.
	Lifetimes map[suite.Component]context.Context
	// Filter is a regular expression over the identifiers of the cases to run; "" means all.
	Filter string
	// Rerun is the report of an earlier run, of which the cases that failed or were inconclusive run again. It is changed
	// and returned. Profiles and Filter are its own, and must be empty.
	Rerun *report.Report
	// Parallel is how many cases run at once; 0 means DefaultParallel.
	Parallel int
	// Timeout shortens the time that each case may take; 0 leaves it.
	Timeout time.Duration
	// Progress gets one line per case, when it ends; nil for none.
	Progress io.Writer
}

// Run runs the suite and returns its report. An error means that no report could be made; cases that fail are in the
// report.
func Run(ctx context.Context, o Options) (*report.Report, error) {
	if o.Image == "" {
		o.Image = DefaultImage
	}
	if o.Parallel < 0 {
		return nil, fmt.Errorf("parallel: %d cases at once", o.Parallel)
	}
	if err := CheckFeatures(o.Features); err != nil {
		return nil, err
	}
	all := cases.List()
	choice, err := choose(o, all)
	if err != nil {
		return nil, err
	}
	cluster, err := suite.Connect(o.Config, o.Image)
	if err != nil {
		return nil, err
	}
	about, err := describe(ctx, cluster, o.Name)
	if err != nil {
		return nil, fmt.Errorf("the cluster at %s does not answer: %w", o.Config.Host, err)
	}
	made := &report.Report{
		APIVersion: report.APIVersion, Kind: report.Kind,
		Suite: report.Suite{Version: Version, Digest: digest(all), Image: o.Image, Profiles: toStrings(choice.profiles),
			Filter: choice.filter},
		Cluster: about, Machine: thisMachine(), Started: time.Now(),
	}
	if o.Rerun != nil {
		if err := report.SameSubject(o.Rerun, made); err != nil {
			return nil, fmt.Errorf("rerun: %w", err)
		}
	}
	cluster.Lifetimes = o.Lifetimes
	for _, f := range o.Absent {
		cluster.Absent[f] = true
	}
	if err := features(ctx, cluster, o.Features, choice.profiles); err != nil {
		return nil, err
	}
	made.Suite.Features = found(cluster.Features)
	engine := suite.Engine{
		Cluster: cluster, Cases: all, Skip: choice.skip, Parallel: cmp.Or(o.Parallel, DefaultParallel), Timeout: o.Timeout,
		Progress: o.Progress,
	}
	made.Cases = engine.Run(ctx)
	if !slices.ContainsFunc(made.Cases, func(c report.Case) bool { return c.Outcome != report.Skipped }) {
		return nil, errors.New("no case ran: see --filter and --profile, and the list of cases")
	}
	made.Seconds = time.Since(made.Started).Seconds()
	if o.Rerun != nil {
		o.Rerun.Merge(made)
		made = o.Rerun
	}
	made.Conclude(specs(choice.profiles, all))
	return made, nil
}

func features(ctx context.Context, cluster *suite.Cluster, declared []suite.Feature, claimed []suite.Profile) error {
	for _, profile := range claimed {
		for _, f := range profile.Core() {
			cluster.Required[f] = true
		}
	}
	if declared == nil {
		return cluster.Detect(ctx)
	}
	for _, f := range declared {
		cluster.Features[f] = true
	}
	return nil
}

// CheckFeatures returns an error that names the first that the suite does not know.
func CheckFeatures(declared []suite.Feature) error {
	for _, f := range declared {
		if !slices.Contains(suite.Features(), f) {
			return fmt.Errorf("unknown feature %q; there are %v", f, suite.Features())
		}
	}
	return nil
}

func found(features map[suite.Feature]bool) []string {
	var out []string
	for _, f := range suite.Features() {
		if features[f] {
			out = append(out, string(f))
		}
	}
	return out
}

func toStrings[S ~string](in []S) []string {
	var out []string
	for _, s := range in {
		out = append(out, string(s))
	}
	return out
}
