// Program cloud-provider gives Services of type LoadBalancer addresses of the cluster's network.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/cloudprovider"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	footprint.Pace()
	config := cloudprovider.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:    "cloud-provider",
		Short:   "Gives Services of type LoadBalancer addresses of the cluster's network, and routes what comes for them",
		Example: "  cloud-provider --kubeconfig=/etc/kubernetes/cloud-provider.conf --address-pool=10.213.0.192/26",
		Config:  config,
		Run: func(ctx context.Context) error {
			config.Clock = clockfile.Clock(ctx, "cloud-provider")
			p, err := cloudprovider.New(*config)
			if err != nil {
				return err
			}
			return p.Run(ctx)
		},
	}))
}
