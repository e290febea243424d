// Package apiregistration holds the kind of APIServices: its row, and how they behave when they are written and shown.
// The requests for what they register are passed on by package aggregation.
package apiregistration

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{apiServices(deps)}
}
