// Program kube-scheduler gives every pod that has none a node.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/scheduler"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
)

func main() {
	config := &scheduler.Config{}
	os.Exit(command.Main(command.Program{
		Name:    "kube-scheduler",
		Short:   "Gives every pod that has none a node",
		Example: "kube-scheduler --kubeconfig=/etc/kubernetes/scheduler.conf",
		Config:  config,
		Run: func(ctx context.Context) error {
			config.Clock = clockfile.Clock(ctx, "kube-scheduler")
			s, err := scheduler.New(*config)
			if err != nil {
				return err
			}
			return s.Run(ctx)
		},
	}))
}
