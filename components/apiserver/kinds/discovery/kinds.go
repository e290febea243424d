// Package discovery holds the kind of endpoint slices: its row, defaults, validation and cells. It is pure.
package discovery

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds() []*api.Kind {
	return []*api.Kind{endpointSlices()}
}
