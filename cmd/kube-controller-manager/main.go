// Command kube-controller-manager brings a cluster's state to the desired one.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/controllers"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	config := controllers.DefaultConfig()
	os.Exit(command.Main(command.Program{
		Name:  "kube-controller-manager",
		Short: "The loops that bring a cluster's state to what its objects ask for",
		Example: "kube-controller-manager --kubeconfig controller-manager.conf --allocate-node-cidrs --cluster-cidr " +
			"10.244.0.0/16",
		Config: &config,
		Run: func(ctx context.Context) error {
			footprint.Fix(50) // with 2,000 pods an eighth less memory than by 100; CPU equal
			config.Clock = clockfile.Clock(ctx, "kube-controller-manager")
			manager, err := controllers.New(config)
			if err != nil {
				return err
			}
			return manager.Run(ctx)
		},
	}))
}
