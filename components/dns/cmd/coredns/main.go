// Program coredns answers the names of Services and pods: cluster DNS.
package main

import (
	"os"
	"runtime/debug"

	"github.com/coredns/coredns/coremain"

	"quintet.dev/quintet/components/dns"
)

// heapGrowth is by how many percent the heap may grow before it is collected, where GOGC says nothing: a server that
// waits most of the time is kept small.
const heapGrowth = 40

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	dns.Use()
	coremain.Run()
}
