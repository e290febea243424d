// Program quintet brings Kubernetes clusters for tests up and down, and proves them.
package main

import (
	"os"

	"quintet.dev/quintet/cmd/quintet/cli"
)

func main() {
	os.Exit(cli.Main())
}
