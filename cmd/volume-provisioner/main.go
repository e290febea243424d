// Program volume-provisioner makes local volumes for claims on a node.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/provisioner"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	footprint.Pace()
	config := provisioner.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:  "volume-provisioner",
		Short: "Makes local volumes for claims whose pods are scheduled to this node, and removes them",
		Example: `  # Make volumes under /data for claims of classes with the provisioner quintet.dev/local.
  volume-provisioner --kubeconfig=/etc/kubernetes/volume-provisioner.conf --hostname-override=node-1 --volume-dir=/data`,
		Config: config,
		Run: func(ctx context.Context) error {
			config.Clock = clockfile.Clock(ctx, "volume-provisioner")
			p, err := provisioner.New(*config)
			if err != nil {
				return err
			}
			return p.Run(ctx)
		},
	}))
}
