// Program kube-apiserver serves the Kubernetes API from etcd, or from memory.
package main

import (
	"os"

	"quintet.dev/quintet/cmd/kube-apiserver/cli"
)

func main() {
	os.Exit(cli.Main(nil))
}
