// Package networking holds the kinds of networking.k8s.io: their rows, defaults, validation and cells. It is pure.
package networking

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{
		ingresses(deps),
		ingressClasses(),
		networkPolicies(),
		ipAddresses(),
		serviceCIDRs(deps),
	}
}
