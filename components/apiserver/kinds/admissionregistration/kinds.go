// Package admissionregistration holds the kinds of webhooks and admission policies: their rows, defaults, validation
// and cells. It compiles their CEL expressions to check them; those that run are compiled by the admission plug-ins.
package admissionregistration

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{
		validatingWebhooks(),
		mutatingWebhooks(),
		validatingPolicies(deps),
		validatingPolicyBindings(deps),
		mutatingPolicies(deps),
		mutatingPolicyBindings(deps),
	}
}
