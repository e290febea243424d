// Package certificates holds the kinds of certificate signing requests, trust bundles and pods' certificate requests:
// their rows, validation and cells. It is pure.
package certificates

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{
		certificateSigningRequests(deps),
		clusterTrustBundles(),
		podCertificateRequests(deps),
	}
}
