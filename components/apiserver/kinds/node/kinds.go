// Package node holds the kind of runtime classes: its row, validation and cells. It is pure.
package node

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds() []*api.Kind {
	return []*api.Kind{runtimeClasses()}
}
