// Package conformance checks the create, schedule and run flow of a Kubernetes cluster, of any make, through its API.
// It knows nothing of the cluster but a kubeconfig. It never certifies: it says what it tried and what it saw.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/conformance/cases"
	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/suite"
)

// Version of the suite; cases say since which version they are in it.
const Version = "0.2"

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
	// Features that the cluster has; nil means that they are found by looking at it.
	Features []suite.Feature
	// Filter is a regular expression over the identifiers of the cases to run; "" means all.
	Filter string
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
	var filter *regexp.Regexp
	if o.Filter != "" {
		var err error
		if filter, err = regexp.Compile(o.Filter); err != nil {
			return nil, fmt.Errorf("filter: %w", err)
		}
	}
	if o.Image == "" {
		o.Image = DefaultImage
	}
	if o.Parallel < 0 {
		return nil, fmt.Errorf("parallel: %d cases at once", o.Parallel)
	}
	cluster, err := suite.Connect(o.Config, o.Image)
	if err != nil {
		return nil, err
	}
	about, err := describe(ctx, cluster, o.Name)
	if err != nil {
		return nil, fmt.Errorf("the cluster at %s does not answer: %w", o.Config.Host, err)
	}
	if err := features(ctx, cluster, o.Features); err != nil {
		return nil, err
	}
	started := time.Now()
	engine := suite.Engine{
		Cluster: cluster, Cases: cases.List(), Filter: filter, Parallel: cmp.Or(o.Parallel, DefaultParallel),
		Timeout:  o.Timeout,
		Progress: o.Progress,
	}
	results := engine.Run(ctx)
	if !slices.ContainsFunc(results, func(c report.Case) bool { return c.Outcome != report.Skipped }) {
		return nil, errors.New("no case ran: see --filter, and the list of cases")
	}
	return &report.Report{
		APIVersion: report.APIVersion,
		Kind:       report.Kind,
		Suite:      report.Suite{Version: Version, Features: names(cluster.Features), Filter: o.Filter},
		Cluster:    about,
		Started:    started,
		Seconds:    time.Since(started).Seconds(),
		Cases:      results,
	}, nil
}

func features(ctx context.Context, cluster *suite.Cluster, declared []suite.Feature) error {
	if declared == nil {
		return cluster.Detect(ctx)
	}
	for _, f := range declared {
		if !slices.Contains(suite.Features(), f) {
			return fmt.Errorf("unknown feature %q; there are %v", f, suite.Features())
		}
		cluster.Features[f] = true
	}
	return nil
}

func names(found map[suite.Feature]bool) []string {
	var out []string
	for _, f := range suite.Features() {
		if found[f] {
			out = append(out, string(f))
		}
	}
	return out
}

func describe(ctx context.Context, cluster *suite.Cluster, name string) (report.Cluster, error) {
	version, err := cluster.Client.Discovery().ServerVersion()
	if err != nil {
		return report.Cluster{}, err
	}
	nodes, err := cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return report.Cluster{}, err
	}
	about := report.Cluster{Name: name, Server: cluster.Config.Host, Version: version.GitVersion}
	if about.Name == "" {
		about.Name = cluster.Config.Host
	}
	for _, n := range nodes.Items {
		info := n.Status.NodeInfo
		about.Nodes = append(about.Nodes, report.Node{
			Name: n.Name, Kubelet: info.KubeletVersion, Runtime: info.ContainerRuntimeVersion, OS: info.OSImage,
		})
	}
	return about, nil
}
