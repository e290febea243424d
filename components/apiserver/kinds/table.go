// Package kinds is the table of the API: what is served, under which names and versions. Package api defines what a row
// is. The rows of a group are in the folder of the group, with how its kinds behave when they are created, changed and
// shown.
package kinds

import (
	"slices"

	"quintet.dev/quintet/components/apiserver/kinds/admissionregistration"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/apiextensions"
	"quintet.dev/quintet/components/apiserver/kinds/apiregistration"
	"quintet.dev/quintet/components/apiserver/kinds/apiserverinternal"
	"quintet.dev/quintet/components/apiserver/kinds/apps"
	"quintet.dev/quintet/components/apiserver/kinds/autoscaling"
	"quintet.dev/quintet/components/apiserver/kinds/batch"
	"quintet.dev/quintet/components/apiserver/kinds/certificates"
	"quintet.dev/quintet/components/apiserver/kinds/coordination"
	"quintet.dev/quintet/components/apiserver/kinds/core"
	"quintet.dev/quintet/components/apiserver/kinds/discovery"
	"quintet.dev/quintet/components/apiserver/kinds/events"
	"quintet.dev/quintet/components/apiserver/kinds/flowcontrol"
	"quintet.dev/quintet/components/apiserver/kinds/networking"
	"quintet.dev/quintet/components/apiserver/kinds/node"
	"quintet.dev/quintet/components/apiserver/kinds/policy"
	"quintet.dev/quintet/components/apiserver/kinds/rbac"
	"quintet.dev/quintet/components/apiserver/kinds/resource"
	"quintet.dev/quintet/components/apiserver/kinds/reviews"
	"quintet.dev/quintet/components/apiserver/kinds/scheduling"
	"quintet.dev/quintet/components/apiserver/kinds/storage"
	"quintet.dev/quintet/components/apiserver/kinds/storagemigration"
)

// Table lists every built-in kind, by API group, with all its versions: which of them are served is for the server to
// say. It makes new rows at each call.
func Table(deps api.Deps) []*api.Kind {
	return slices.Concat(
		core.Kinds(deps),
		events.Kinds(),

		// Workloads: they run pods, and say how many and in which order.
		apps.Kinds(deps),
		autoscaling.Kinds(deps),
		batch.Kinds(deps),
		policy.Kinds(),
		scheduling.Kinds(),

		// Authorization, admission and the API itself.
		admissionregistration.Kinds(deps),
		reviews.Kinds(deps),
		apiextensions.Kinds(),
		apiregistration.Kinds(deps),
		certificates.Kinds(deps),
		flowcontrol.Kinds(),
		apiserverinternal.Kinds(),
		rbac.Kinds(),

		// What pods run on: nodes, network, storage.
		coordination.Kinds(),
		discovery.Kinds(),
		networking.Kinds(deps),
		node.Kinds(),
		resource.Kinds(deps),
		storage.Kinds(),
		storagemigration.Kinds(),
	)
}
