// Package cases is the table of contents of the suite: every case of every component, in the order of the road of a pod.
package cases

import (
	"slices"

	"quintet.dev/quintet/conformance/cases/api"
	"quintet.dev/quintet/conformance/cases/flow"
	"quintet.dev/quintet/conformance/cases/node"
	"quintet.dev/quintet/conformance/cases/scheduling"
	"quintet.dev/quintet/conformance/cases/services"
	"quintet.dev/quintet/conformance/cases/workloads"
	"quintet.dev/quintet/conformance/suite"
)

// List returns all cases.
func List() []suite.Case {
	return slices.Concat(api.Cases(), scheduling.Cases(), workloads.Cases(), node.Cases(), services.Cases(), flow.Cases())
}
