// Program api-balancer stands before the API servers of a cluster.
package main

import (
	"context"
	"os"

	"quintet.dev/quintet/components/balancer"
	"quintet.dev/quintet/internal/clockfile"
	"quintet.dev/quintet/internal/command"
)

func main() {
	config := balancer.NewConfig()
	os.Exit(command.Main(command.Program{
		Name:  "api-balancer",
		Short: "Leads connections to API servers that answer",
		Example: "  api-balancer --backend=10.0.0.2:6443 --backend=10.0.0.3:6443 " +
			"--certificate-authority=/etc/kubernetes/pki/ca.crt",
		Config: config,
		Run: func(ctx context.Context) error {
			config.Clock = clockfile.Clock(ctx, "api-balancer")
			b, err := balancer.New(*config)
			if err != nil {
				return err
			}
			return b.Run(ctx)
		},
	}))
}
