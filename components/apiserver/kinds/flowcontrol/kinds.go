// Package flowcontrol holds the kinds of flow schemas and priority levels: their rows, defaults, validation and cells.
// It is pure.
package flowcontrol

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds() []*api.Kind {
	return []*api.Kind{
		flowSchemas(),
		priorityLevels(),
	}
}
