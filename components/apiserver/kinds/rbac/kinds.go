// Package rbac holds the kinds of rbac.authorization.k8s.io: their rows, defaults, validation and cells. It is pure.
// Whether a user may grant what a role holds is the authorizer's matter, not of this package.
package rbac

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds() []*api.Kind {
	return []*api.Kind{
		roles(),
		roleBindings(),
		clusterRoles(),
		clusterRoleBindings(),
	}
}
