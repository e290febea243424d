// Program network-policy enforces NetworkPolicies on a node.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/policy"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
	"quintet.dev/quintet/internal/footprint"
)

func main() {
	footprint.Pace()
	config := policy.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:  "network-policy",
		Short: "Enforces NetworkPolicies on this node, through nftables",
		Example: `  # Enforce policies until the program ends; they stay in force then.
  network-policy --kubeconfig=/etc/kubernetes/network-policy.conf --hostname-override=node-1
  # Lift them.
  network-policy --cleanup
  # Ask whether the rules are in force, and how many there are.
  curl http://127.0.0.1:10260/healthz http://127.0.0.1:10260/metrics`,
		Config: config,
		Run: func(ctx context.Context) error {
			config.Clock = clockfile.Clock(ctx, "network-policy")
			p, err := policy.New(*config)
			if err != nil {
				return err
			}
			return p.Run(ctx)
		},
	}))
}
