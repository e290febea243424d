// Package scheduling holds the kind of priority classes: its row, defaults, validation and cells. It is pure.
package scheduling

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds() []*api.Kind {
	return []*api.Kind{priorityClasses()}
}
