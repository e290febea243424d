// Program kube-apiserver serves the Kubernetes API from etcd, or from memory.
package main

import (
	"os"

	"quintet.dev/quintet/cmd/kube-apiserver/cli"
	_ "quintet.dev/quintet/internal/footprint/early" // so that initialising the others isn't interrupted by collections
)

func main() {
	os.Exit(cli.Main(nil))
}
