// Program node-routes keeps kernel routes to the pods of other nodes.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/routes"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
)

func main() {
	config := routes.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:    "node-routes",
		Short:   "Keeps kernel routes to the pods of other nodes",
		Example: "  node-routes --kubeconfig=/etc/kubernetes/node-routes.conf --hostname-override=node-1",
		Config:  config,
		Run: func(ctx context.Context) error {
			config.Clock = clockfile.Clock(ctx, "node-routes")
			r, err := routes.New(*config)
			if err != nil {
				return err
			}
			return r.Run(ctx)
		},
	}))
}
