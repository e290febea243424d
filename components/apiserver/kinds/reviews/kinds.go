// Package reviews holds the virtual kinds of authentication.k8s.io and authorization.k8s.io, with which clients ask
// about access: their rows, and the checks of the questions. It is pure; the answers come from elsewhere.
package reviews

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the two groups.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{
		tokenReviews(deps),
		selfSubjectReviews(deps),
		subjectAccessReviews(deps),
		localSubjectAccessReviews(deps),
		selfSubjectAccessReviews(deps),
		selfSubjectRulesReviews(deps),
	}
}
