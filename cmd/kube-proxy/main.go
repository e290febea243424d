// Program kube-proxy makes the addresses of Services work on a node.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/proxy"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	footprint.Pace()
	config := proxy.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:    "kube-proxy",
		Short:   "Makes the addresses of Services work on this node, through nftables",
		Example: "  kube-proxy --config=/etc/kubernetes/kube-proxy.yaml --hostname-override=node-1",
		Config:  config,
		Run: func(ctx context.Context) error {
			config.Clock = clockfile.Clock(ctx, "kube-proxy")
			p, err := proxy.New(*config)
			if err != nil {
				return err
			}
			return p.Run(ctx)
		},
	}))
}
