// Program metrics-server serves what nodes and pods use now.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/metricsserver"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	footprint.Pace()
	config := metricsserver.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:  "metrics-server",
		Short: "Serves metrics.k8s.io: what nodes and pods use now, as kubelets tell",
		Example: "metrics-server --kubeconfig=/etc/kubernetes/metrics-server.conf --metric-resolution=15s " +
			"--kubelet-use-node-status-port",
		Config: config,
		Run: func(ctx context.Context) error {
			config.Clock = clockfile.Clock(ctx, "metrics-server")
			m, err := metricsserver.New(*config)
			if err != nil {
				return err
			}
			return m.Run(ctx)
		},
	}))
}
