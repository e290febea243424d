// Program registry serves images to the nodes of a cluster, as distribution's program of that name does.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"quintet.dev/quintet/components/registry"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "serve" {
		fmt.Fprintln(os.Stderr, "registry serves an OCI registry:\n\n  registry serve CONFIG.yml")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	r, err := registry.Read(os.Args[2])
	if err == nil {
		err = r.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}
