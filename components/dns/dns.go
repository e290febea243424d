// Package dns is cluster DNS: CoreDNS as a library, with the plug-ins that clusters use
// (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/). It is a module of its own, so that what
// CoreDNS depends on decides nothing for the other components.
package dns

import (
	"slices"

	"github.com/coredns/coredns/core/dnsserver"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/template"
)

// directives are the plug-ins of a Corefile, in the order in which a query passes them, whatever theirs in the file.
var directives = []string{
	"reload", "bind", "ready", "health", "prometheus", "errors", "log", "loadbalance", "cache", "rewrite", "template",
	"hosts",
	"kubernetes", "loop", "forward",
}

// Use makes CoreDNS know these plug-ins alone. CoreDNS keeps them in a variable of the process.
func Use() { dnsserver.Directives = slices.Clone(directives) }
