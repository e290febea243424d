// Package cli is the command line of kube-apiserver.
package cli

import (
	"context"
	"os"
	"runtime/debug"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/internal/command"
)

// Beside is what runs in the process of a server, as a client of it from which nothing is withheld. It ends with ctx.
type Beside func(ctx context.Context, client *rest.Config, config apiserver.Config) error

// Main runs the program with the process's arguments and signals, and beside, which may be nil, for as long. It returns
// the exit code.
func Main(beside Beside) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // what it holds is large and lives long: a third less memory for no time that shows
	}
	config := &apiserver.Config{}
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
			if beside == nil {
				return server.Run(ctx)
			}
			return runBoth(ctx, server, func(ctx context.Context) error { return beside(ctx, server.Client(), *config) })
		},
	})
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
