// Package coordination holds the kinds of leases and lease candidates: their rows, validation and cells. It is pure.
package coordination

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds() []*api.Kind {
	return []*api.Kind{
		leases(),
		leaseCandidates(),
	}
}
