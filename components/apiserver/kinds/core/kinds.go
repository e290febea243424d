// Package core holds the kinds of the core group: their rows, defaults, validation and the cells of their Tables. It is
// pure and works on typed objects. Events have a package of their own, as events.k8s.io serves them too.
package core

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{
		namespaces(),
		nodes(),
		pods(deps),
		bindings(deps),
		componentStatuses(deps),
		configMaps(),
		secrets(),
		serviceAccounts(),
		services(deps),
		endpoints(),
		podTemplates(deps),
		replicationControllers(deps),
		persistentVolumes(deps),
		persistentVolumeClaims(),
		resourceQuotas(),
		limitRanges(),
	}
}
