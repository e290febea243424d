package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/score"
)

type watchFlags struct {
	kubeconfig string
	web        bool
	port       int
	limit      int
	leases     bool
}

func (a *app) watch() *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show who writes what in the cluster, and why, as it happens",
		Long: `Show who writes what in the cluster, and why, as it happens, until it is interrupted: a line per change, or,
with --web, a page with the sequence and the graph of owners. The page is served on 127.0.0.1 alone, at an address that
can't be guessed. Any cluster can be watched.`,
		Example: `  quintet watch
  quintet watch --web
  quintet watch --web --port 8090 --kubeconfig other.conf`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.port != 0 && !f.web {
				return errors.New("--port is that of the page: it needs --web")
			}
			if f.port < 0 || f.port > 65535 {
				return fmt.Errorf("--port must be from 0 to 65535: %d", f.port)
			}
			if err := checkLimit(f.limit); err != nil {
				return err
			}
			return a.runWatch(cmd.Context(), f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file of another cluster")
	fs.BoolVar(&f.web, "web", false, "serve a page instead of printing lines")
	fs.IntVar(&f.port, "port", 0, "port of the page; 0 is a free one")
	fs.BoolVar(&f.leases, "leases", false, "print the renewals of leases, too")
	limitFlag(cmd, &f.limit)
	return cmd
}

func (a *app) runWatch(ctx context.Context, f watchFlags) error {
	_, config, err := a.target(ctx, f.kubeconfig)
	if err != nil {
		return err
	}
	recorder, err := score.Record(ctx, config, score.Options{MaxEntries: f.limit})
	if err != nil {
		return err
	}
	defer recorder.Stop()
	if !f.web {
		return a.printEntries(ctx, recorder, f.leases)
	}
	live, err := score.NewLive(recorder, f.port)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return live.Serve(ctx) })
	fmt.Fprintln(a.out, live.URL())
	return group.Wait()
}

// printEntries prints entries until ctx ends.
func (a *app) printEntries(ctx context.Context, recorder *score.Recorder, leases bool) error {
	for from := 0; ; {
		entries, next, err := recorder.Next(ctx, from)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Object.Kind == "Lease" && e.Verb == score.Update && !leases {
				continue
			}
			if _, err := fmt.Fprintln(a.out, e.Line()); err != nil {
				return err
			}
		}
		from = next
	}
}
