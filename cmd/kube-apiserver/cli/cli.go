// Package cli is the command line of kube-apiserver.
package cli

import (
	"context"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/faults"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

// Beside runs in the process of a server, with a client that is authorized for everything. It returns when ctx ends.
type Beside func(ctx context.Context, client *rest.Config, config options.Config) error

// config is the server's, with what tests ask of it besides.
type config struct {
	options.Config
	injection faults.Flag
}

// AddFlags implements command.Config.
func (c *config) AddFlags(fs *pflag.FlagSet) { c.injection.With(c.Config.AddFlags)(fs) }

// Main runs the program with the process's arguments and signals, and beside, which may be nil, concurrently. It
// returns the exit code.
func Main(beside Beside) int {
	footprint.Pace()
	config := &config{}
	return command.Main(command.Program{
		Name:    "kube-apiserver",
		Short:   "Serves the Kubernetes API.",
		Example: "  kube-apiserver --storage-backend=memory --client-ca-file=ca.crt --authorization-mode=Node,RBAC",
		Config:  config,
		Run: func(ctx context.Context) error {
			config.Filter, config.Clock = config.injection.Filter(), clockfile.Clock(ctx, "kube-apiserver")
			server, err := apiserver.New(config.Config)
			if err != nil {
				return err
			}
			go trim(ctx, server.Ready())
			if beside == nil {
				return server.Run(ctx)
			}
			return runBoth(ctx, server,
				func(ctx context.Context) error { return beside(ctx, server.Client(), config.Config) })
		},
	})
}

// settling is how long after the start a server is still busy with what comes at once: the first clients, their first
// writes.
const settling = 500 * time.Millisecond

func trim(ctx context.Context, ready <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-ready:
	}
	select {
	case <-ctx.Done():
	case <-time.After(settling):
		footprint.Trim()
	}
}

// runBoth runs a server and beside concurrently: the server ends last, so that its clients reach it.
func runBoth(ctx context.Context, server *apiserver.Server, beside func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer stop()
		return beside(ctx)
	})
	group.Go(func() error { return server.Run(serving) })
	return group.Wait()
}
