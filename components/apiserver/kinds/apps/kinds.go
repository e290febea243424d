// Package apps holds the kinds of the apps group: their rows, defaults, validation and cells. It is pure.
package apps

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{
		deployments(deps),
		replicaSets(deps),
		daemonSets(deps),
		statefulSets(deps),
		controllerRevisions(),
	}
}
