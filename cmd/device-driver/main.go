// Program device-driver is a driver of devices for tests: a device plug-in and a DRA driver.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/devicedriver"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	footprint.Pace()
	config := devicedriver.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:    "device-driver",
		Short:   "Offers devices of the node as an extended resource and to ResourceClaims",
		Example: "device-driver --node-name=node-1 --devices=8 --claim-devices=2 --numa-nodes=2",
		Config:  config,
		Run: func(ctx context.Context) error {
			d, err := devicedriver.New(*config)
			if err != nil {
				return err
			}
			return d.Run(ctx)
		},
	}))
}
