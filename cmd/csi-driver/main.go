// Program csi-driver is a CSI driver for tests, with the sidecars' work built in.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/csidriver"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	footprint.Pace()
	config := csidriver.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:  "csi-driver",
		Short: "Serves CSI with directories and files of the node, and provisions, attaches and resizes its volumes",
		Example: "csi-driver --node-id=node-1 --csi-endpoint=/var/lib/kubelet/plugins/csi.quintet.dev/csi.sock " +
			"--registration-dir=/var/lib/kubelet/plugins_registry --provision --attach --resize",
		Config: config,
		Run: func(ctx context.Context) error {
			d, err := csidriver.New(*config)
			if err != nil {
				return err
			}
			return d.Run(ctx)
		},
	}))
}
