// Program kubelet runs the pods of one node.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/kubelet"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	footprint.Pace()
	config := kubelet.NewConfig()
	config.ShuttingDown = shuttingDown()
	os.Exit(command.Main(command.Program{
		Name:    "kubelet",
		Short:   "Runs the pods of a node on a container engine",
		Example: "  kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --hostname-override=node-1",
		Config:  config,
		Run: func(ctx context.Context) error {
			config.Clock = clockfile.Clock(ctx, "kubelet")
			k, err := kubelet.New(*config)
			if err != nil {
				return err
			}
			adjustOOMScore(config.OOMScoreAdj)
			go trim(ctx)
			return k.Run(ctx)
		},
	}))
}
