// Program fault-injector disturbs the network and the disk of one member of a cluster, beside which it runs.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/faultinjector"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	footprint.Pace()
	config := faultinjector.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:    "fault-injector",
		Short:   "Disturbs the network and the disk of one member of a cluster, beside which it runs",
		Example: "  fault-injector --interface=eth0 --delay=100ms --jitter=20ms",
		Config:  config,
		Run: func(ctx context.Context) error {
			i, err := faultinjector.New(*config)
			if err != nil {
				return err
			}
			return i.Run(ctx)
		},
	}))
}
