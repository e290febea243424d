// Program coredns answers the names of Services and pods: cluster DNS.
package main

import (
	"github.com/coredns/coredns/coremain"

	"quintet.dev/quintet/components/dns"
)

func main() {
	dns.Use()
	coremain.Run()
}
