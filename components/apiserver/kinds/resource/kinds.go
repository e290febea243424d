// Package resource holds the kinds of resource.k8s.io: devices that drivers offer, and the claims to them
// (https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/).
package resource

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{
		deviceClasses(),
		resourceClaims(deps),
		resourceClaimTemplates(deps),
		resourceSlices(deps),
		deviceTaintRules(deps),
	}
}
