// Package cases is the table of contents of the suite: every case of every component, in the order of the lifecycle of
// a pod.
package cases

import (
	"slices"

	"quintet.dev/quintet/conformance/cases/api"
	"quintet.dev/quintet/conformance/cases/autoscaling"
	"quintet.dev/quintet/conformance/cases/dns"
	"quintet.dev/quintet/conformance/cases/flow"
	"quintet.dev/quintet/conformance/cases/loadbalancer"
	"quintet.dev/quintet/conformance/cases/networkpolicy"
	"quintet.dev/quintet/conformance/cases/node"
	"quintet.dev/quintet/conformance/cases/proxy"
	"quintet.dev/quintet/conformance/cases/scheduling"
	"quintet.dev/quintet/conformance/cases/storage"
	"quintet.dev/quintet/conformance/cases/workloads"
	"quintet.dev/quintet/conformance/suite"
)

// List returns all cases.
func List() []suite.Case {
	return slices.Concat(api.Cases(), scheduling.Cases(), workloads.Cases(), autoscaling.Cases(), node.Cases(),
		proxy.Cases(), dns.Cases(), networkpolicy.Cases(), loadbalancer.Cases(), storage.Cases(), flow.Cases())
}
