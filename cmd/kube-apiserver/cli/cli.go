// Package cli is the command line of kube-apiserver.
package cli

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

// Beside is what runs in the process of a server, as a client of it from which nothing is withheld. It ends with ctx.
type Beside func(ctx context.Context, client *rest.Config, config options.Config) error

// Main runs the program with the process's arguments and signals, and beside, which may be nil, for as long. It returns
// the exit code.
func Main(beside Beside) int {
	footprint.Pace()
	config := &options.Config{}
	return command.Main(command.Program{
		Name:    "kube-apiserver",
		Short:   "Serves the Kubernetes API.",
		Example: "  kube-apiserver --storage-backend=memory --client-ca-file=ca.crt --authorization-mode=Node,RBAC",
		Config:  config,
		Run: func(ctx context.Context) error {
			server, err := apiserver.New(*config)
			if err != nil {
				return err
			}
			go trim(ctx, server.Ready())
			if beside == nil {
				return server.Run(ctx)
			}
			return runBoth(ctx, server, func(ctx context.Context) error { return beside(ctx, server.Client(), *config) })
		},
	})
}

// settling is how long after the start a server is still busy with what comes at once: the first clients, their first writes.
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

// runBoth runs a server, and beside it for as long: the server is the last to end, so that its clients find it.
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
