// Program kube-apiserver serves the Kubernetes API from etcd, or from memory.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/internal/command"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // what it holds is large and lives long: a third less memory for no time that shows
	}
	config := &apiserver.Config{}
	os.Exit(command.Main(command.Program{
		Name:    "kube-apiserver",
		Short:   "Serves the Kubernetes API.",
		Example: "  kube-apiserver --storage-backend=memory --client-ca-file=ca.crt --authorization-mode=Node,RBAC",
		Config:  config,
		Run: func(ctx context.Context) error {
			server, err := apiserver.New(*config)
			if err != nil {
				return err
			}
			return server.Run(ctx)
		},
	}))
}
