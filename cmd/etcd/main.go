// Program etcd is upstream's etcd, flags, environment and all, as one static program.
package main

import (
	"os"

	"quintet.dev/quintet/cmd/etcd/cli"
)

func main() {
	os.Exit(cli.Main())
}
