// Program node-init is the first process of a node container: it prepares cgroups, starts the container engine, loads
// the images that lie in the node image, and keeps kubelet, kube-proxy and the node's network running.
package main

import (
	"fmt"
	"os"

	"quintet.dev/quintet/cmd/node-init/boot"
)

func main() {
	if err := boot.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "node-init:", err)
		os.Exit(1)
	}
}
