package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/conformance"
	"quintet.dev/quintet/conformance/suite"
)

// matrixCell is the process of a cell of `quintet matrix`.
func (a *app) matrixCell() *cobra.Command {
	var f cellFlags
	var dir string
	cmd := &cobra.Command{
		Use:    "cell",
		Short:  "Run the conformance suite on a cluster that is removed afterwards",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			go func() { // ends with the input, at the latest with the process
				_, _ = io.Copy(io.Discard, a.in)
				cancel()
			}()
			opts, err := f.up.options(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			verdict, err := a.runCell(ctx, f, opts, dir)
			return errors.Join(err, json.NewEncoder(a.out).Encode(verdict))
		},
	}
	f.bind(cmd.Flags())
	cmd.Flags().StringVar(&dir, "report", "", "directory to write the report to")
	return cmd
}

// runCell starts a cluster, runs the suite on it, and removes it.
func (a *app) runCell(ctx context.Context, f cellFlags, opts []cluster.Option, dir string) (out cellVerdict,
	err error) {
	redirectLogs(io.Discard)
	if f.up.config != "" {
		file, err := cluster.LoadConfig(f.up.config)
		if err != nil {
			return out, err
		}
		f.up.inProcess = f.up.inProcess || file.InProcess()
		opts = append([]cluster.Option{file.Option()}, opts...)
	}
	var programs cellPrograms
	if f.up.inProcess {
		own, err := programs.options(ctx, f.up, dir)
		if err != nil {
			return out, err
		}
		opts = append(append(opts, own...), cluster.InProcess())
	}
	config, stop, notReady := a.startCell(ctx, f, opts)
	defer func() { err = errors.Join(err, stop()) }()
	defer func() { out.Reason = joinReasons(out.Reason, programs.ended()) }()
	if notReady != nil {
		out.Reason = fmt.Sprintf("the cluster did not become ready: %v", notReady)
	}
	if config == nil {
		return out, nil
	}
	o := f.suite.options()
	o.Config, o.Name, o.Image, o.Progress = config, a.name, f.image, a.err
	o.Lifetimes = programs.lifetimes()
	if f.up.inProcess && !programs.replaces(cluster.Node) {
		o.Absent = []suite.Feature{suite.RunsPods} // hollow nodes pretend
	}
	made, err := conformance.Run(ctx, o)
	if err != nil {
		out.Reason = joinReasons(out.Reason, err.Error())
		return out, nil
	}
	return out, made.WriteAll(dir)
}

func joinReasons(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "\n" + second
}

// startCell starts a cluster and returns client configuration for it, also if it did not become ready; none if it has
// no API server. stop removes it, and is never nil.
func (a *app) startCell(ctx context.Context, f cellFlags, opts []cluster.Option) (
	config *rest.Config, stop func() error, notReady error) {
	starting, cancel := context.WithTimeout(ctx, f.up.timeout)
	defer cancel()
	stop = func() error {
		if f.up.inProcess {
			return nil // a start that failed has removed all
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		return cluster.Remove(ctx, a.name)
	}
	opts = append(opts, cluster.WithName(a.name), cluster.WithProgress(a.progress()))
	if !f.up.inProcess {
		opts = append(opts, cluster.RetainOnFailure())
	}
	c, err := cluster.Start(starting, opts...)
	if err == nil {
		stop = func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
			defer cancel()
			return c.Stop(ctx)
		}
		return c.RESTConfig(), stop, nil
	}
	if ctx.Err() != nil || f.up.inProcess {
		return nil, stop, err
	}
	opened, unopened := cluster.Open(ctx, a.name)
	if unopened != nil {
		return nil, stop, err
	}
	defer opened.Close()
	return opened.RESTConfig(), stop, err
}
